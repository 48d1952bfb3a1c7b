#include "launcher/run/model_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/reader.h"
#include "checkpoint/safetensors.h"
#include "engine/comm/agreement.h"
#include "launcher/huggingface/adapter_folder.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/run/resume.h"
#include "launcher/run/runner.h"
#include "launcher/settings/chosen_model.h"
#include "zero/engine.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

constexpr char kLacks[] =
    "the checkpoint is without its frozen weights (--save-frozen=false), and ";
constexpr char kCure[] =
    "the folder as it was; train looks where --init-from DIR says, too";

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

std::string to_digits(uint64_t sum) { return fmt::format("{:016x}", sum); }

// As the first rank reads it.
SavedRun saved_run_of(Engine& engine, const std::string& folder) {
  std::string config;
  Agreement(engine.control(), "look at " + folder).run([&] {
    if (engine.rank() == 0) config = checkpoint::Reader(folder).manifest().config;
  });
  return parse_saved_run(engine.control().broadcast(config), folder);
}

// As the engine keeps them, whatever lay on disk.
void require_same(Engine& engine, const FrozenSource& source, const std::string& path) {
  const DType type = engine.options().frozen_dtype;
  const auto recorded = source.checksums.find(name_of(type));
  if (recorded == source.checksums.end()) return;
  std::vector<std::string> fqns;
  for (const auto& [fqn, sum] : recorded->second) fqns.push_back(fqn);
  const std::vector<uint64_t> found = engine.checksums(fqns, type);
  for (size_t i = 0; i < fqns.size(); ++i) {
    if (recorded->second.at(fqns[i]) == to_digits(found[i])) continue;
    throw Error(ExitCode::kCheckpoint,
                kLacks + fqns[i] + " is not what the run was trained with", path, kCure);
  }
}

// In peft what is saved is no longer one tensor with what it was tied to.
void require_tying(const ShardView& shard, const std::string& folder) {
  if (shard.frozen || shard.aliases.empty() || is_of_adapter(shard.fqn)) return;
  if (keeps_tying(folder)) return;
  throw Error(
      ExitCode::kUsage,
      fmt::format("modules_to_save has {}, which is one tensor with {} here, and "
                  "two in peft",
                  shard.fqn, shard.aliases.front()),
      folder + "/" + kAdapterConfig,
      "an adapter with ensure_weight_tying; or the model with the adapter merged: "
      "merge_and_unload() of peft");
}

}  // namespace

WeightsPlace find_frozen(Engine& engine, const std::vector<std::string>& paths) {
  std::string found;
  Agreement(engine.control(), "look for frozen weights").run([&] {
    if (engine.rank() != 0) return;
    std::error_code error;
    const auto there = std::ranges::find_if(paths, [&](const std::string& path) {
      return !path.empty() && std::filesystem::exists(path, error);
    });
    if (there == paths.end())
      throw Error(ExitCode::kCheckpoint,
                  kLacks + std::string("what they came from is not there"),
                  fmt::format("{}", fmt::join(paths, ", ")), kCure);
    const bool is_checkpoint = is_of_run(*there);
    found = json({is_checkpoint ? find_and_tell(*there, "--init-from") : *there,
                  is_checkpoint})
                .dump();
  });
  const json agreed = json::parse(engine.control().broadcast(found));
  return {agreed[0], agreed[1]};
}

Checksums frozen_checksums(Engine& engine, const std::vector<std::string>& lacking) {
  std::vector<std::string> fqns;
  for (const ShardView& shard : engine.shards())
    if (shard.frozen && !is_of_adapter(shard.fqn) &&
        std::ranges::count(lacking, shard.fqn) == 0)
      fqns.push_back(shard.fqn);
  const std::vector<uint64_t> sums = engine.checksums(fqns);
  Checksums checksums;
  for (size_t i = 0; i < fqns.size(); ++i) checksums[fqns[i]] = sums[i];
  return checksums;
}

FrozenSource unchanged(Engine& engine, const Checksums& before, const std::string& path) {
  FrozenSource source;
  std::vector<std::string> fqns;
  for (const auto& [fqn, sum] : frozen_checksums(engine, {})) {
    const auto other = before.find(fqn);
    if (other == before.end() || other->second != sum) continue;
    fqns.push_back(fqn);
    source.checksums[name_of(DType::kFp32)][fqn] = to_digits(sum);
  }
  if (fqns.empty()) return {};
  source.path = lasting_path(path);
  for (const DType type : {DType::kBf16, DType::kFp16, DType::kInt8}) {
    const std::vector<uint64_t> sums = engine.checksums(fqns, type);
    for (size_t i = 0; i < fqns.size(); ++i)
      source.checksums[name_of(type)][fqns[i]] = to_digits(sums[i]);
  }
  return source;
}

void read_frozen(Engine& engine, const FrozenSource& source, WeightsPlace place,
                 const ModelFamily& family, const ModelShape& shape) {
  place.options.allow_extra = {"*"};
  place.elsewhere = names_of_other_parts(family, shape);
  for (const ShardView& shard : engine.shards())
    if (!source.has(shard.fqn)) place.may_lack.push_back(shard.fqn);
  read_weights(engine, place, family, shape);
  require_same(engine, source, place.path);
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
  if (!frozen.path.empty())
    read_frozen(engine, frozen, find_frozen(engine, {frozen.path}), family, shape);
  append(options.allow_missing, frozen.fqns());
  read.state = load_checkpoint(engine, place.path, options);
  std::erase_if(read.state.missing, [&](const std::string& fqn) {
    return is_of_adapter(fqn) || frozen.has(fqn);
  });
  return read;
}

void read_adapter_weights(Engine& engine, const std::string& folder,
                          const ModelFamily& family) {
  SafetensorsNames names{.renamed = family.names_in_peft,
                         .outer = kAdapterPrefix,
                         .file = checkpoint::kAdapterFile};
  for (const ShardView& shard : engine.shards()) {
    require_tying(shard, folder);
    if (shard.frozen) names.may_lack.push_back(shard.fqn);
  }
  load_safetensors(engine, folder, names);
}

}  // namespace zero::launcher
