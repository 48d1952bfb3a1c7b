// adapter_config.json of a folder of peft, whoever wrote it.
#include <nlohmann/json.hpp>

#include "checkpoint/error.h"
#include "checkpoint/json.h"
#include "launcher/huggingface/adapter_folder.h"
#include "launcher/settings/lora_setting.h"
#include "tests/fuzz/target.h"
#include "zero/errors.h"

namespace zero::fuzz::adapter {
namespace {

using namespace launcher;

// As a checkpoint keeps it, and as it is exported.
void claim_adapter(const LoraOptions& options) {
  claim(lora_from_json(to_json(options), "kept") == options,
        "an adapter keeps its numbers");
  const LoraTarget layer{"model.layers.0.q_proj", 8, 8, /*is_transposed=*/false, 1};
  const LoraOptions again =
      judge_adapter(adapter_config(options, {layer}, {}, ""), "exported");
  claim(again.r == options.r && again.alpha == options.alpha &&
            again.rslora == options.rslora && again.dropout == options.dropout &&
            again.ranks == options.ranks && again.alphas == options.alphas,
        "an exported adapter is read as it is");
  claim(!describe(options).empty(), "an adapter can be told");
}

}  // namespace

void target(const std::string& text) {
  try {
    const auto config = checkpoint::parse_strictly(text, "adapter_config.json");
    const LoraOptions options = judge_adapter(config, "adapter_config.json");
    check_lora(options);
    claim_adapter(options);
  } catch (const checkpoint::CheckpointError&) {
  } catch (const Error& error) {
    claim(error.code() == ExitCode::kUsage, "a refused adapter is an error of usage");
  }
}

}  // namespace zero::fuzz::adapter
