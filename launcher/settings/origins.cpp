#include "launcher/settings/origins.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace zero::launcher {
namespace {

using nlohmann::json;

// "--steps 6", "ZERO_STEPS 6", "run.toml line 2: steps 6"
std::string given_text(const std::string& key, const RawValue& raw) {
  const Setting& setting = *find_setting(key);
  const bool is_of_file =
      raw.origin != flag_of(setting) && raw.origin != variable_of(setting);
  return fmt::format("{}{} {}", raw.origin, is_of_file ? ": " + key : "",
                     fmt::join(raw.words, " "));
}

}  // namespace

std::string origins_text(const RawValues& given, const Settings& earlier,
                         const std::string& checkpoint) {
  const std::set<std::string> always = {"data",  "dtype",     "global_batch", "lr",
                                        "model", "optimizer", "seed",         "steps"};
  std::vector<std::string> told, kept;
  for (const auto& [key, raw] : given) told.push_back(given_text(key, raw));
  const json defaults = to_json(Settings()), values = to_json(earlier);
  for (const auto& [key, value] : values.items()) {
    if (given.contains(key) || (!always.contains(key) && value == defaults.at(key)))
      continue;
    kept.push_back(fmt::format("{} {}", key, fmt::join(raw_of(value).words, " ")));
  }
  return fmt::format(
      "given: {}\nof {}: {}\n"
      "chosen anew: device, ranks, memory; all others: defaults",
      fmt::join(told, ", "), checkpoint, fmt::join(kept, ", "));
}

}  // namespace zero::launcher
