#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "launcher/settings/settings.h"
#include "zero/lora.h"

// Adapters as folders of peft: adapter_config.json, adapter_model.safetensors.
namespace zero::launcher {

inline constexpr char kAdapterConfig[] = "adapter_config.json";
// What stands before all names of an adapter's tensors.
inline constexpr char kAdapterPrefix[] = "base_model.model.";

// Has it an adapter_config.json?
bool is_adapter_folder(const std::string& path);

// The adapters that the folder `path` holds. Throws Error(kUsage) that names `flag` for
// what is no such folder, and for adapters that are not here, by name; CheckpointError
// for files that are broken.
LoraOptions read_adapter(const std::string& path, const std::string& flag);

// The same of an adapter_config.json that was read.
LoraOptions judge_adapter(const nlohmann::json& config, const std::string& where);

// Does the adapter of that folder keep what is saved one tensor with what it was tied to?
bool keeps_tying(const std::string& path);

// Throw Error(kUsage) for --adapter without a model to add it to.
void refuse_adapter_alone(const Settings& settings);

// Name these adapters in the config of a model, which has none yet: else Error(kUsage).
void add_adapter(nlohmann::json& config, const LoraOptions& options,
                 const std::string& flag);

// An adapter_config.json of a model with these layers, whose modules `saved` were trained
// beside the adapters. `base`: where the model came from; "": nobody knows.
nlohmann::json adapter_config(const LoraOptions& options,
                              const std::vector<LoraTarget>& layers,
                              const std::vector<std::string>& saved,
                              const std::string& base);

}  // namespace zero::launcher
