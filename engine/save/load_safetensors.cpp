#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <span>

#include "base/names.h"
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/safetensors_folder.h"
#include "engine/comm/agreement.h"
#include "engine/device/torch/compute_type.h"
#include "engine/watch/activity.h"
#include "zero/engine.h"
#include "zero/save_load.h"

namespace zero {
namespace {

using checkpoint::CheckpointError;
using checkpoint::SafetensorsFolder;

// Which tensors of the folder belong to each shard.
struct Sources {
  std::vector<std::vector<std::string>> of_shard;  // more than one: tied, under each name
  std::vector<std::string> of_buffer;              // none, or one for each
  std::vector<std::string> dead;
  std::vector<std::string> problems;
};

class Finder {
 public:
  Finder(const checkpoint::SafeTensors& tensors, const SafetensorsNames& names)
      : tensors_(tensors), names_(names) {}

  // The names in the folder of a tensor with these FQNs.
  std::vector<std::string> find(const std::vector<std::string>& fqns,
                                const std::vector<int64_t>& shape) {
    std::vector<std::string> found;
    for (const std::string& fqn : fqns) {
      const bool has_prefix = !names_.prefix.empty() && fqn.starts_with(names_.prefix);
      const std::string bare = has_prefix ? fqn.substr(names_.prefix.size()) : fqn;
      for (const std::string& name : std::set{fqn, bare}) {
        const auto tensor = tensors_.find(name);
        if (tensor == tensors_.end()) continue;
        used.insert(name);
        found.push_back(name);
        if (tensor->second.shape != shape) {
          problems.push_back(name + " is " + checkpoint::to_string(tensor->second.shape) +
                             ", the model's is " + checkpoint::to_string(shape));
        }
      }
    }
    if (found.empty()) problems.push_back(fqns.front() + " is missing");
    return found;
  }

  std::set<std::string> used;
  std::vector<std::string> problems;

 private:
  const checkpoint::SafeTensors& tensors_;
  const SafetensorsNames& names_;
};

Sources find_sources(const std::vector<ShardView>& shards,
                     const std::vector<BufferView>& buffers,
                     const checkpoint::SafeTensors& tensors,
                     const SafetensorsNames& names) {
  Sources sources;
  Finder finder(tensors, names);
  for (const ShardView& shard : shards) {
    std::vector<std::string> fqns = shard.aliases;
    fqns.insert(fqns.begin(), shard.fqn);
    sources.of_shard.push_back(finder.find(fqns, shard.shape));
  }
  // Of a folder without any they stay as they are: tables that every model makes anew.
  const bool has_any = std::ranges::any_of(
      buffers, [&](const BufferView& buffer) { return tensors.contains(buffer.fqn); });
  for (const BufferView& buffer : buffers) {
    if (!has_any) break;
    const auto found = finder.find({buffer.fqn}, buffer.shape);
    sources.of_buffer.push_back(found.empty() ? "" : found.front());
  }
  sources.problems = finder.problems;
  for (const auto& [name, tensor] : tensors) {
    if (finder.used.contains(name)) continue;
    const bool is_dead = matches_any(names.dead, name);
    auto& list = is_dead ? sources.dead : sources.problems;
    list.push_back(printable(name) + (is_dead ? "" : " is not in the model"));
  }
  return sources;
}

[[noreturn]] void refuse(const std::string& folder,
                         const std::vector<std::string>& problems) {
  constexpr size_t kMost = 20;
  std::string text = std::to_string(problems.size()) + " tensor(s) do not fit the model:";
  for (size_t i = 0; i < std::min(kMost, problems.size()); ++i)
    text += "\n  - " + problems[i];
  if (problems.size() > kMost)
    text += "\n  - and " + std::to_string(problems.size() - kMost) + " more";
  throw CheckpointError(folder, "", text,
                        "the weights of the model that config.json describes");
}

// What stands under a second name must be the same.
void require_equal(SafetensorsFolder& folder, const ShardView& shard,
                   const std::vector<std::string>& names) {
  if (names.size() == 1) return;  // takes no memory
  const auto numel = static_cast<int64_t>(shard.master.size());
  std::vector<float> first(std::min(StoredValues::kFewAtOnce, numel)),
      second(first.size());
  for (size_t i = 1; i < names.size(); ++i) {
    for (int64_t begin = 0; begin < numel; begin += StoredValues::kFewAtOnce) {
      const auto count =
          static_cast<size_t>(std::min(StoredValues::kFewAtOnce, numel - begin));
      folder.read(names[0], shard.begin + begin, std::span(first).first(count));
      folder.read(names[i], shard.begin + begin, std::span(second).first(count));
      if (std::equal(first.begin(), first.begin() + static_cast<int64_t>(count),
                     second.begin()))
        continue;
      throw CheckpointError(
          folder.path(), names[i],
          "it is tied to " + names[0] + " in the model, and has other values here",
          "a config.json that does not tie them (tie_word_embeddings: false)");
    }
  }
}

// Whether a tensor of the folder counts, by its name.
std::function<bool(const std::string&)> counts_by(const SafetensorsNames& names) {
  return [prefix = names.prefix,
          others = std::set<std::string>(names.elsewhere.begin(), names.elsewhere.end())](
             const std::string& name) {
    return !others.contains(name) && !others.contains(prefix + name);
  };
}

// Parameters that every rank has whole, as shards of one rank; `values` owns them.
std::vector<ShardView> whole_shards(Engine& engine, std::vector<at::Tensor>& values) {
  std::vector<ShardView> shards;
  for (const BufferView& view : engine.buffers()) {
    if (!view.is_parameter) continue;
    at::Tensor& value = values.emplace_back(at::empty(view.shape, at::kFloat));
    ShardView& shard = shards.emplace_back();
    shard.fqn = view.fqn;
    shard.shape = view.shape;
    shard.master = {value.data_ptr<float>(), value.numel()};
    shard.aliases = view.aliases;
  }
  return shards;
}

void read(SafetensorsFolder& folder, const ShardView& shard, const std::string& name) {
  shard.master.set_all([&](int64_t begin, std::span<float> part) {
    folder.read(name, shard.begin + begin, part);
  });
}

// The same on all ranks, each of which has it whole.
void read(SafetensorsFolder& folder, Engine& engine, const BufferView& buffer,
          const std::string& name) {
  const DType stored = folder.tensors().at(name).dtype;
  const at::Tensor value = at::empty(buffer.shape, scalar_type(stored));
  folder.read_stored(name, 0, value.numel(), value.mutable_data_ptr());
  engine.set_buffer(buffer.fqn, value.to(scalar_type(buffer.dtype)));
}

}  // namespace

std::vector<std::string> load_safetensors(Engine& engine, const std::string& folder,
                                          const SafetensorsNames& names) {
  Agreement ranks(engine.control(), "read weights of " + folder);
  Activity::Stretch stretch("reading " + folder);
  std::vector<at::Tensor> values;
  const std::vector<ShardView> whole = whole_shards(engine, values);
  std::vector<ShardView> shards = engine.shards();
  const size_t num_sharded = shards.size();
  shards.insert(shards.end(), whole.begin(), whole.end());
  std::vector<BufferView> buffers = engine.buffers();
  std::erase_if(buffers, &BufferView::is_parameter);
  std::unique_ptr<SafetensorsFolder> files;
  Sources sources;
  ranks.run([&] {
    files = std::make_unique<SafetensorsFolder>(folder, counts_by(names));
    sources = find_sources(shards, buffers, files->tensors(), names);
    if (!sources.problems.empty()) refuse(folder, sources.problems);
    for (size_t i = 0; i < shards.size(); ++i)
      require_equal(*files, shards[i], sources.of_shard[i]);
  });
  ranks.run([&] {
    int64_t bytes = 0;
    for (size_t i = 0; i < shards.size(); ++i)
      bytes += static_cast<int64_t>(shards[i].master.size()) *
               size_of(files->tensors().at(sources.of_shard[i].front()).dtype);
    stretch.expect(bytes);
    for (size_t i = 0; i < shards.size(); ++i)
      read(*files, shards[i], sources.of_shard[i].front());
    for (size_t i = 0; i < sources.of_buffer.size(); ++i)
      read(*files, engine, buffers[i], sources.of_buffer[i]);
    for (size_t i = 0; i < values.size(); ++i)
      engine.set_buffer(shards[num_sharded + i].fqn, values[i]);
  });
  engine.masters_changed();
  return sources.dead;
}

}  // namespace zero
