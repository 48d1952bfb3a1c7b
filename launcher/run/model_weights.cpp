#include "launcher/run/model_weights.h"

#include <fmt/format.h>

#include <filesystem>

#include "checkpoint/reader.h"
#include "engine/comm/agreement.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/run/runner.h"
#include "launcher/settings/chosen_model.h"
#include "zero/engine.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// Of all ranks, as the first one reads it.
SavedRun saved_run_of(Engine& engine, const std::string& folder) {
  std::string config;
  Agreement(engine.control(), "look at " + folder).run([&] {
    if (engine.rank() == 0) config = checkpoint::Reader(folder).manifest().config;
  });
  return parse_saved_run(engine.control().broadcast(config), folder);
}

// The type in which an engine for evaluation has all of its values.
DType exact_type(const Engine& engine) {
  return engine.options().inference ? engine.options().frozen_dtype : DType::kFp32;
}

void require_same(Engine& engine, const FrozenSource& source, const std::string& path) {
  const DType type = exact_type(engine);
  const auto recorded = source.checksums.find(name_of(type));
  std::vector<std::string> fqns;
  if (recorded != source.checksums.end())
    for (const auto& [fqn, sum] : recorded->second) fqns.push_back(fqn);
  const std::vector<uint64_t> found = engine.checksums(fqns, type);
  for (size_t i = 0; i < fqns.size(); ++i) {
    if (recorded->second.at(fqns[i]) == fmt::format("{:016x}", found[i])) continue;
    throw Error(
        ExitCode::kCheckpoint,
        fmt::format("{} is not what the run was trained with, whose checkpoint is "
                    "without its frozen weights (--save-frozen=false)",
                    fqns[i]),
        path, "the folder as it was, and --frozen-dtype auto");
  }
}

std::string place_of(Engine& engine, const FrozenSource& source,
                     const std::string& else_at) {
  std::string found;
  if (engine.rank() == 0) {
    std::error_code error;
    for (const std::string& path : {source.path, else_at})
      if (found.empty() && !path.empty() && std::filesystem::exists(path, error))
        found = path;
  }
  found = engine.control().broadcast(found);
  if (!found.empty()) return found;
  throw Error(ExitCode::kCheckpoint,
              "the checkpoint is without its frozen weights (--save-frozen=false), and "
              "where they came from is nothing",
              source.path,
              "put them back; train takes --init-from DIR for another place");
}

}  // namespace

std::vector<std::string> frozen_for_good(Engine& engine) {
  std::vector<std::string> fqns;
  for (const ShardView& shard : engine.shards())
    if (shard.frozen && shard.state.empty()) fqns.push_back(shard.fqn);
  return fqns;
}

FrozenSource frozen_source(Engine& engine, const std::string& path) {
  FrozenSource source{std::filesystem::absolute(path), {}};
  const std::vector<std::string> fqns = frozen_for_good(engine);
  for (const DType type : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    const std::vector<uint64_t> sums = engine.checksums(fqns, type);
    for (size_t i = 0; i < fqns.size(); ++i)
      source.checksums[name_of(type)][fqns[i]] = fmt::format("{:016x}", sums[i]);
  }
  return source;
}

std::string read_frozen(Engine& engine, const FrozenSource& source,
                        const std::string& else_at, const ModelFamily& family,
                        const ModelShape& shape) {
  WeightsPlace place{.path = place_of(engine, source, else_at)};
  place.is_checkpoint = is_of_run(place.path);
  place.options.allow_extra = {"*"};
  place.may_lack = adapter_names();
  place.elsewhere = names_of_other_parts(family, shape);
  read_weights(engine, place, family, shape);
  require_same(engine, source, place.path);
  return place.path;
}

WeightsRead read_weights(Engine& engine, const WeightsPlace& place,
                         const ModelFamily& family, const ModelShape& shape) {
  WeightsRead read;
  if (!place.is_checkpoint) {
    const ConfigClass& of = *find_class(family, shape.config);
    read.dead = load_safetensors(engine, place.path,
                                 {.prefix = of.prefix,
                                  .dead = of.dead,
                                  .elsewhere = place.elsewhere,
                                  .may_lack = place.may_lack});
    return read;
  }
  LoadOptions options = place.options;
  options.with_optimizer = false;
  append(options.allow_missing, place.may_lack);
  append(options.allow_extra, place.elsewhere);
  const FrozenSource frozen = saved_run_of(engine, place.path).frozen;
  if (!frozen.path.empty()) read_frozen(engine, frozen, "", family, shape);
  append(options.allow_missing, frozen.fqns());
  read.state = load_checkpoint(engine, place.path, options);
  std::erase_if(read.state.missing, [&](const std::string& fqn) {
    return is_of_adapter(fqn) || frozen.has(fqn);
  });
  return read;
}

}  // namespace zero::launcher
