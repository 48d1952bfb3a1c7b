#include "launcher/huggingface/adapter_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/names.h"
#include "checkpoint/json.h"
#include "checkpoint/safetensors_folder.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/run/lines.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/lora_setting.h"
#include "launcher/settings/values.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

namespace fs = std::filesystem;
using checkpoint::shown;
using nlohmann::json;

// Keys of peft's that make another adapter, or other values of the model below it, unless
// they are null, false, empty, or as allowed.
const std::vector<std::string> kMustBeNothing = split(
    "alora_invocation_tokens arrow_config bias exclude_modules init_lora_weights "
    "kasa_config layer_replication layers_pattern layers_to_transform lora_bias "
    "megatron_config monteclora_config target_parameters trainable_token_indices "
    "use_bdlora use_dora use_qalora velora_config",
    ' ');

bool is_allowed(const std::string& key, const json& value) {
  return (key == "bias" && value == "none") ||
         (key == "init_lora_weights" && (value == true || value == "gaussian"));
}

bool says_nothing(const json& value) {
  return value.is_null() || value == false ||
         ((value.is_array() || value.is_object()) && value.empty());
}

void require_known(const json& config, const std::string& where) {
  const json type = config.value("peft_type", json());
  if (type != "LORA")
    throw Error(ExitCode::kUsage,
                "adapters of peft_type " + shown(type) + " are not here", where,
                "an adapter of peft_type LORA");
  for (const std::string& key : kMustBeNothing) {
    const json value = config.value(key, json());
    if (says_nothing(value) || is_allowed(key, value)) continue;
    throw Error(ExitCode::kUsage, key + " is " + shown(value) + ", which is not here",
                where,
                "an adapter without it; or the model with the adapter merged: "
                "merge_and_unload() of peft");
  }
}

// Python's regular expressions mean something else than globs.
void require_names(const json& config, const std::string& where) {
  for (const char* key : {"rank_pattern", "alpha_pattern"}) {
    const json values = config.value(key, json());
    for (const auto& [name, value] : values.items()) {
      if (name.find_first_of("*?") == name.npos) continue;
      throw Error(ExitCode::kUsage,
                  fmt::format("{} has {}, which is a regular expression to peft", key,
                              shown(json(name))),
                  where,
                  fmt::format("{}: the names of all layers that it means, such as "
                              "model.layers.1.self_attn.q_proj",
                              key));
    }
  }
}

// The reverse of names_in_peft().
std::string name_here(const ModelFamily& family, const std::string& name) {
  for (const auto& [ours, theirs] : family.names_in_peft)
    if (const auto here = renamed(theirs, name, ours)) return *here;
  return name;
}

json read_config(const std::string& folder) {
  return read_small_json(folder, kAdapterConfig,
                         "an adapter_config.json that peft has written: copy it again");
}

std::string last_part(const std::string& fqn) { return fqn.substr(fqn.rfind('.') + 1); }

// A short name where all layers that have it have adapters.
std::vector<std::string> names_of_targets(const std::vector<LoraTarget>& layers) {
  std::map<std::string, bool> is_whole;
  for (const LoraTarget& layer : layers) {
    bool& whole = is_whole.try_emplace(last_part(layer.fqn), true).first->second;
    whole = whole && layer.has_adapter();
  }
  std::vector<std::string> names;
  for (const LoraTarget& layer : layers) {
    const std::string last = last_part(layer.fqn);
    if (layer.has_adapter()) names.push_back(is_whole[last] ? last : layer.fqn);
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

bool is_adapter_folder(const std::string& path) {
  std::error_code error;
  return fs::exists(path + "/" + kAdapterConfig, error);
}

bool keeps_tying(const std::string& path) {
  return read_config(path).value("ensure_weight_tying", json()) == true;
}

std::vector<std::string> names_in_peft(const ModelFamily& family,
                                       const std::string& fqn) {
  std::vector<std::string> names = {fqn};
  for (const auto& [ours, theirs] : family.names_in_peft)
    if (const auto there = renamed(ours, fqn, theirs)) names.push_back(*there);
  return names;
}

std::set<std::string> names_beside_factors(const std::string& path,
                                           const ModelFamily& family) {
  const std::string prefix = kAdapterPrefix;
  std::set<std::string> names;  // one may be there under two
  const checkpoint::SafetensorsFolder folder(path, checkpoint::kAdapterFile);
  for (const auto& [name, tensor] : folder.tensors())
    if (name.starts_with(prefix) && !is_of_adapter(name))
      names.insert(name_here(family, name.substr(prefix.size())));
  return names;
}

LoraOptions read_adapter(const std::string& path, const std::string& flag,
                         const ModelFamily& family) {
  std::error_code error;
  const std::string cure = flag + " DIR: a folder that peft has written";
  if (!fs::is_directory(path, error))
    throw Error(ExitCode::kUsage, no_folder(flag, path), path, cure);
  if (!is_adapter_folder(path))
    throw Error(ExitCode::kUsage,
                std::string("it holds no adapter: ") + kAdapterConfig + " is missing",
                path, cure);
  LoraOptions options = judge_adapter(read_config(path), path + "/" + kAdapterConfig);
  // Any end of a name will do, in peft.
  for (std::string& name : options.modules_to_save) name = "*" + name_here(family, name);
  return options;
}

LoraOptions judge_adapter(const json& config, const std::string& where) {
  const LoraOptions options = lora_from_json(config, where);
  require_known(config, where);
  require_names(config, where);
  return options;
}

void refuse_adapter_alone(const Settings& settings) {
  if (settings.adapter.empty()) return;
  throw Error(ExitCode::kUsage, "an adapter stands on a model that is there", "--adapter",
              "--init-from DIR: the folder of that model");
}

void add_adapter(json& config, const LoraOptions& options, const std::string& flag) {
  if (config.contains(kLora))
    throw Error(ExitCode::kUsage, "the model has adapters already", flag,
                "zero_launch export --merge first, and what that writes");
  config[kLora] = to_json(options);
}

json adapter_config(const LoraOptions& options, const std::vector<LoraTarget>& layers,
                    const std::vector<std::string>& saved, const std::string& base) {
  json config = to_json(options);
  config["target_modules"] = names_of_targets(layers);
  config["modules_to_save"] = saved.empty() ? json() : json(saved);
  const bool is_transposed = std::ranges::any_of(layers, [](const LoraTarget& layer) {
    return layer.has_adapter() && layer.is_transposed;
  });
  config.update({{"peft_type", "LORA"},
                 {"task_type", "CAUSAL_LM"},
                 {"base_model_name_or_path", base.empty() ? json() : json(base)},
                 {"revision", nullptr},
                 {"inference_mode", true},
                 {"fan_in_fan_out", is_transposed},
                 {"bias", "none"},
                 {"init_lora_weights", true},
                 {"use_dora", false}});
  return config;
}

}  // namespace zero::launcher
