#include "launcher/settings/origins.h"

#include <nlohmann/json.hpp>
#include <set>

namespace zero::launcher {
namespace {

using nlohmann::json;

std::string value_text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const json& element : value)
    text += (text.empty() ? "" : " ") + value_text(element);
  return text;
}

// "--steps 6", "ZERO_STEPS 6", "run.toml line 2: steps 6"
std::string given_text(const std::string& key, const RawValue& raw) {
  std::string words;
  for (const std::string& word : raw.words) words += " " + word;
  const Setting& setting = *find_setting(key);
  const bool is_of_file =
      raw.origin != flag_of(setting) && raw.origin != variable_of(setting);
  return raw.origin + (is_of_file ? ": " + key : "") + words;
}

std::string joined(std::string list, const std::string& item) {
  return std::move(list) + (list.empty() ? "" : ", ") + item;
}

}  // namespace

std::string origins_text(const RawValues& given, const Settings& earlier,
                         const std::string& checkpoint) {
  const std::set<std::string> always = {"data",  "dtype",     "global_batch", "lr",
                                        "model", "optimizer", "seed",         "steps"};
  std::string told, kept;
  for (const auto& [key, raw] : given) told = joined(told, given_text(key, raw));
  const json defaults = to_json(Settings()), values = to_json(earlier);
  for (const auto& [key, value] : values.items()) {
    if (given.contains(key) || (!always.contains(key) && value == defaults.at(key)))
      continue;
    kept = joined(kept, key + " " + value_text(value));
  }
  return "given: " + told + "\nof " + checkpoint + ": " + kept +
         "\nchosen anew: device, ranks, threads, memory; all others: defaults";
}

}  // namespace zero::launcher
