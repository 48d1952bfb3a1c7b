#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <memory>
#include <span>

#include "checkpoint/safetensors_folder.h"
#include "engine/comm/agreement.h"
#include "engine/device/torch/compute_type.h"
#include "engine/save/sources.h"
#include "engine/watch/activity.h"
#include "zero/engine.h"
#include "zero/save_load.h"

namespace zero {
namespace {

using checkpoint::SafetensorsFolder;

OfferedTensors offered_by(const SafetensorsFolder& folder) {
  OfferedTensors offered;
  for (const auto& [name, tensor] : folder.tensors())
    offered[name] = {tensor.dtype, tensor.shape};
  return offered;
}

Sources sources_in(const SafetensorsFolder& folder, const SafetensorsNames& names,
                   const std::vector<ShardView>& shards,
                   const std::vector<BufferView>& buffers) {
  std::vector<WantedTensor> wanted_params, wanted_buffers;
  for (const ShardView& shard : shards) {
    wanted_params.push_back({shard.aliases, shard.shape});
    std::vector<std::string>& fqns = wanted_params.back().fqns;
    fqns.insert(fqns.begin(), shard.fqn);
  }
  for (const BufferView& buffer : buffers)
    wanted_buffers.push_back({{buffer.fqn}, buffer.shape, buffer.dtype});
  return find_sources(wanted_params, wanted_buffers, offered_by(folder), names,
                      folder.path(),
                      "the weights of the model that config.json describes");
}

std::vector<std::string> lacking_in(const Sources& sources,
                                    const std::vector<ShardView>& shards) {
  std::vector<std::string> fqns;
  for (size_t i = 0; i < shards.size(); ++i)
    if (sources.of_param[i].empty()) fqns.push_back(shards[i].fqn);
  return fqns;
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
  std::erase_if(buffers, [](const BufferView& view) {
    return view.is_parameter || view.is_converted;
  });
  std::unique_ptr<SafetensorsFolder> files;
  Sources sources;
  ranks.run([&] {
    engine.require_between_steps("load_safetensors()");
    files = std::make_unique<SafetensorsFolder>(folder, names.file, counts_by(names));
    sources = sources_in(*files, names, shards, buffers);
    for (size_t i = 0; i < shards.size(); ++i)
      require_equal(folder, sources.of_param[i], shards[i].begin,
                    static_cast<int64_t>(shards[i].master.size()),
                    "a config.json that does not tie them (tie_word_embeddings: false)",
                    [&](const std::string& name, int64_t begin, std::span<float> out) {
                      files->read(name, begin, out);
                    });
  });
  const std::vector<std::string> lacking = lacking_in(sources, shards);
  if (engine.awaits_values() && !lacking.empty()) engine.initialize(lacking);
  ranks.run([&] {
    int64_t bytes = 0;
    for (size_t i = 0; i < shards.size(); ++i)
      for (const std::string& name : sources.of_param[i])
        bytes += static_cast<int64_t>(shards[i].master.size()) *
                 size_of(files->tensors().at(name).dtype);
    stretch.expect(bytes);
    for (size_t i = 0; i < shards.size(); ++i)
      if (!sources.of_param[i].empty())
        read(*files, shards[i], sources.of_param[i].front());
    for (size_t i = 0; i < sources.of_buffer.size(); ++i)
      read(*files, engine, buffers[i], sources.of_buffer[i]);
    for (size_t i = 0; i < values.size(); ++i)
      if (!sources.of_param[num_sharded + i].empty())
        engine.set_buffer(shards[num_sharded + i].fqn, values[i]);
  });
  engine.masters_changed();
  return sources.dead;
}

}  // namespace zero
