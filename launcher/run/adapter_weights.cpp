#include "launcher/run/adapter_weights.h"

#include "checkpoint/safetensors.h"
#include "launcher/huggingface/adapter_folder.h"
#include "zero/engine.h"
#include "zero/save_load.h"

namespace zero::launcher {

void read_adapter_weights(Engine& engine, const std::string& folder) {
  SafetensorsNames names{.outer = kAdapterPrefix, .file = checkpoint::kAdapterFile};
  for (const ShardView& shard : engine.shards())
    if (shard.frozen) names.may_lack.push_back(shard.fqn);
  load_safetensors(engine, folder, names);
}

}  // namespace zero::launcher
