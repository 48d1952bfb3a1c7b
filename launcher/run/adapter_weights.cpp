#include "launcher/run/adapter_weights.h"

#include <fmt/format.h>

#include "checkpoint/safetensors.h"
#include "launcher/huggingface/adapter_folder.h"
#include "launcher/settings/chosen_model.h"
#include "zero/engine.h"
#include "zero/errors.h"
#include "zero/save_load.h"

namespace zero::launcher {

namespace {

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

void read_adapter_weights(Engine& engine, const std::string& folder) {
  SafetensorsNames names{.outer = kAdapterPrefix, .file = checkpoint::kAdapterFile};
  for (const ShardView& shard : engine.shards()) {
    require_tying(shard, folder);
    if (shard.frozen) names.may_lack.push_back(shard.fqn);
  }
  load_safetensors(engine, folder, names);
}

}  // namespace zero::launcher
