#include "launcher/settings/lora_setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/names.h"
#include "checkpoint/json.h"
#include "launcher/settings/values.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using checkpoint::shown;
using nlohmann::json;

constexpr int64_t kLargestRank = 1 << 16;

bool is_allowed(const LoraOptions& options) {
  try {
    check_lora(options);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// False: a list with an empty name.
bool take_names(const std::string& value, ModuleNames& names) {
  names = split(value, '+');
  return !names.empty() && std::ranges::none_of(names, &std::string::empty);
}

// One of "r=8", "rslora" ...; false: it is none.
bool take_word(LoraOptions& lora, std::string key, const std::optional<std::string>& is) {
  std::ranges::replace(key, '-', '_');
  if (key == "rslora") {
    lora.rslora = true;
    return !is;
  }
  if (!is) return false;
  if (key == "targets") return take_names(*is, lora.targets);
  if (key == "modules_to_save") return take_names(*is, lora.modules_to_save);
  if (key == "r") {
    const auto rank = parse_integer(*is);
    lora.r = rank.value_or(0);
    return rank && *rank <= kLargestRank;
  }
  const auto number = parse_number(*is);
  if (key == "alpha") lora.alpha = number.value_or(0);
  if (key == "dropout") lora.dropout = number.value_or(0);
  return number && (key == "alpha" || key == "dropout");
}

// Values of an adapter's config. A key that is absent, or null, leaves its default.
class LoraReader {
 public:
  LoraReader(const json& config, const std::string& where)
      : config_(config), where_(where) {
    if (!config.is_object()) refuse("an adapter's config", config, "a JSON object");
  }

  void read(const char* key, int64_t& rank) const {
    if (const json* value = find(key)) rank = rank_of(key, *value);
  }
  void read(const char* key, double& number) const {
    if (const json* value = find(key)) number = number_of(key, *value);
  }
  void read(const char* key, bool& flag) const {
    const json* value = find(key);
    if (!value) return;
    if (!value->is_boolean()) refuse(key, *value, "true or false");
    flag = value->get<bool>();
  }
  void read(const char* key, ModuleNames& names) const {
    const json* value = find(key);
    if (!value) return;
    if (*value == LoraOptions::kAllLinear) {
      names = {LoraOptions::kAllLinear};
      return;
    }
    if (!value->is_array())
      refuse(key, *value,
             fmt::format("a list of names, or {}; patterns of other kinds are not here",
                         LoraOptions::kAllLinear));
    names.clear();
    for (const json& name : *value) names.push_back(name_of(key, name));
    std::ranges::sort(names);  // a set, to peft
  }
  template <class T>
  void read(const char* key, std::map<std::string, T>& values) const {
    const json* of_names = find(key);
    if (!of_names) return;
    if (!of_names->is_object()) refuse(key, *of_names, "values by names of modules");
    for (const auto& [name, value] : of_names->items()) {
      T& read = values[name_of(key, name)];
      if constexpr (std::is_integral_v<T>)
        read = rank_of(key, value);
      else
        read = number_of(key, value);
    }
  }

 private:
  const json* find(const char* key) const {
    const auto found = config_.find(key);
    return found == config_.end() || found->is_null() ? nullptr : &*found;
  }

  [[noreturn]] void refuse(const std::string& key, const json& value,
                           const std::string& cure) const {
    throw Error(ExitCode::kUsage, key + " is " + shown(value), where_, key + ": " + cure);
  }

  int64_t rank_of(const char* key, const json& value) const {
    if (!value.is_number_integer() || value < 1 || value > kLargestRank)
      refuse(key, value, fmt::format("a rank from 1 to {}", kLargestRank));
    return value.get<int64_t>();
  }

  double number_of(const char* key, const json& value) const {
    if (!value.is_number()) refuse(key, value, "a number");
    return value.get<double>();
  }

  // A pattern of Python's would mean something else here.
  std::string name_of(const char* key, const json& name) const {
    const bool is_name =
        name.is_string() && !name.get<std::string>().empty() &&
        is_utf8(name.get<std::string>()) &&
        name.get<std::string>().find_first_of("^$+()[]{}|\\") == std::string::npos;
    if (!is_name) refuse(key, name, "names of modules as they stand in the model");
    return name.get<std::string>();
  }

  const json& config_;
  const std::string& where_;
};

}  // namespace

std::optional<LoraOptions> parse_lora(const std::string& text) {
  if (!is_utf8(text)) return std::nullopt;
  LoraOptions lora;
  bool has_alpha = false;
  std::vector<std::string> keys;
  for (const std::string& word : split(text, ',')) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    std::optional<std::string> value;
    if (equals != word.npos) value = word.substr(equals + 1);
    if (std::ranges::count(keys, key) > 0 || !take_word(lora, key, value))
      return std::nullopt;
    keys.push_back(key);
    has_alpha = has_alpha || key == "alpha";
  }
  if (!has_alpha) lora.alpha = static_cast<double>(lora.r);
  return !keys.empty() && is_allowed(lora) ? std::optional(lora) : std::nullopt;
}

json to_json(const LoraOptions& options) {
  const bool takes_all = options.targets == ModuleNames{LoraOptions::kAllLinear};
  json config = {{"r", options.r},
                 {"lora_alpha", options.alpha},
                 {"lora_dropout", options.dropout},
                 {"use_rslora", options.rslora},
                 {"target_modules", options.targets},
                 {"modules_to_save", nullptr},
                 {"rank_pattern", options.ranks},
                 {"alpha_pattern", options.alphas}};
  if (takes_all) config["target_modules"] = LoraOptions::kAllLinear;
  if (!options.modules_to_save.empty())
    config["modules_to_save"] = options.modules_to_save;
  return config;
}

LoraOptions lora_from_json(const json& config, const std::string& where) {
  const LoraReader reader(config, where);
  LoraOptions options;
  reader.read("r", options.r);
  reader.read("lora_alpha", options.alpha);
  reader.read("lora_dropout", options.dropout);
  reader.read("use_rslora", options.rslora);
  reader.read("target_modules", options.targets);
  reader.read("modules_to_save", options.modules_to_save);
  reader.read("rank_pattern", options.ranks);
  reader.read("alpha_pattern", options.alphas);
  try {
    check_lora(options);
  } catch (const Error& error) {
    throw Error(error.code(), error.problem(), where,
                error.where() + ": " + error.cure());
  }
  return options;
}

std::string describe(const LoraOptions& options) {
  return fmt::format("adapters of rank {} (alpha {:g})", options.r, options.alpha);
}

}  // namespace zero::launcher
