#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "zero/lora.h"

// Adapters as --lora says them, and as they stand in files.
namespace zero::launcher {

// "r=8,alpha=16,dropout=0.05,targets=q_proj+v_proj,rslora,modules-to-save=lm_head"; what
// is left out is as LoraOptions has it, alpha as r. Nothing: it has another form, or
// says what check_lora() refuses.
std::optional<LoraOptions> parse_lora(const std::string& text);

// In the words of peft's adapter_config.json: "r", "lora_alpha", "target_modules" ...
nlohmann::json to_json(const LoraOptions& options);

// The reverse; other keys are not looked at. Throws Error(kUsage) about `where`.
LoraOptions lora_from_json(const nlohmann::json& config, const std::string& where);

// "adapters of rank 8 (alpha 16)"
std::string describe(const LoraOptions& options);

}  // namespace zero::launcher
