#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "launcher/model.h"
#include "launcher/settings/settings.h"
#include "zero/lora.h"

// Adapters as folders of peft: adapter_config.json, adapter_model.safetensors.
namespace zero::launcher {

inline constexpr char kAdapterConfig[] = "adapter_config.json";
// What stands before all names of an adapter's tensors.
inline constexpr char kAdapterPrefix[] = "base_model.model.";

// Has it an adapter_config.json?
bool is_adapter_folder(const std::string& path);

// Beside LoraOptions in a model's kLora: as names_beside_factors().
inline constexpr char kCameAlong[] = "came_along";

// What a file has for a parameter or a module of the family: a name for each generation
// of transformers.
std::vector<std::string> names_in_peft(const ModelFamily& family, const std::string& fqn);

// The adapters that the folder `path` holds, for a model of this family. Throws
// Error(kUsage) that names `flag` for what is no such folder, and for adapters that are
// not here, by name; CheckpointError for files that are broken.
LoraOptions read_adapter(const std::string& path, const std::string& flag,
                         const ModelFamily& family);

// The parameters whose values that folder holds beside the adapters' factors, trained or
// not.
std::set<std::string> names_beside_factors(const std::string& path,
                                           const ModelFamily& family);

// What an adapter_config.json says, in its own names of modules.
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
