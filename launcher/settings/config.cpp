#include "launcher/settings/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

#include "base/text.h"
#include "engine/comm/started_ranks.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/foreign_names.h"
#include "launcher/settings/name_advice.h"
#include "launcher/settings/new_run.h"
#include "launcher/settings/plain_flags.h"
#include "launcher/settings/setting_table.h"
#include "launcher/settings/toml.h"
#include "launcher/settings/values.h"
#include "launcher/settings/verb_table.h"

namespace zero::launcher {
namespace {

// Variables of the scripts that build this program, and of whoever starts ranks.
constexpr std::array<std::string_view, 7> kForeignVariables = {
    "ZERO_TORCH",  "ZERO_VENV",      "ZERO_BUILD",    "ZERO_CUDA",
    "ZERO_TARGET", kColumnsVariable, kStarterVariable};

// "" for one that is nothing like a setting. Short names of other tools, such as
// ZERO_STAGE, may well be meant for these.
std::string advice_for_variable(const std::string& name) {
  constexpr size_t kShort = 5;
  const std::string key = to_lower(name.substr(5));
  if (key.size() <= kShort && !foreign_name_advice(key).empty()) return "";
  const std::string advice = advice_for(key, variable_of);
  std::string flag = "--" + key;
  std::ranges::replace(flag, '_', '-');
  return !advice.empty() && find_flag(flag) ? "; it is a flag alone: " + flag : advice;
}

// Of "ZERO_LR=0.1", unless it is somebody else's.
std::optional<std::string> own_variable(const std::string& entry) {
  const std::string name = entry.substr(0, entry.find('='));
  if (!name.starts_with("ZERO_") ||
      std::ranges::find(kForeignVariables, name) != kForeignVariables.end())
    return {};
  return name;
}

RawValues values_from_environment(const std::vector<std::string>& environment,
                                  Problems& problems) {
  RawValues values;
  for (const std::string& entry : environment) {
    const auto own = own_variable(entry);
    if (!own) continue;
    const std::string& name = *own;
    const std::string value = entry.substr(std::min(name.size() + 1, entry.size()));
    if (const Setting* setting = find_setting(name, variable_of)) {
      RawValue& raw = values[setting->key];
      raw.words = setting->is_list ? split(value, ',') : std::vector{value};
      raw.origin = name;
    } else if (const std::string advice = advice_for_variable(name); !advice.empty()) {
      problems.push_back(
          {"unknown environment variable " + name + advice, "environment"});
    }
  }
  return values;
}

// A pipe might never end, a device never does.
std::string read_file(const std::string& path, Problems& problems) {
  constexpr uintmax_t kLargest = 1 << 20;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  const auto problem = [&](const std::string& text) {
    problems.push_back({text, "--config"});
    return std::string();
  };
  if (std::filesystem::is_directory(status))
    return problem(path + " is a folder; allowed: a file in TOML");
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    return problem(path + " is a pipe or a device; allowed: a file in TOML");
  std::ifstream file(path);
  if (!file)
    return problem(
        fmt::format("cannot read {}: {}; allowed: a file in TOML, as "
                    "--print-config prints one",
                    path, std::strerror(errno)));
  if (std::filesystem::file_size(path, error) > kLargest && !error)
    return problem(path + " has over 1 MiB; allowed: a file in TOML");
  return {std::istreambuf_iterator<char>(file), {}};
}

RawValues values_from_file(const std::string& path, Problems& problems) {
  TomlFile file = parse_toml(read_file(path, problems), path);
  append(problems, std::move(file.problems));
  RawValues values;
  for (TomlEntry& entry : file.entries) {
    if (!find_setting(entry.key)) {
      problems.push_back({"unknown key " + entry.key + advice_for(entry.key, key_of),
                          entry.value.origin});
    } else {
      values[entry.key] = std::move(entry.value);
    }
  }
  return values;
}

}  // namespace

std::vector<std::string> unread_variables(const std::vector<std::string>& environment) {
  std::vector<std::string> names;
  for (const std::string& entry : environment) {
    const auto name = own_variable(entry);
    if (name && !find_setting(*name, variable_of) && advice_for_variable(*name).empty())
      names.push_back(*name);
  }
  return names;
}

namespace {

int64_t next_multiple(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Steps and epochs say the same: one of them takes the other's place.
Problems choose_length(const RawValues& given, Settings& settings) {
  const auto steps = given.find("steps"), epochs = given.find("epochs");
  if (epochs == given.end() && steps != given.end() && settings.steps > 0)
    settings.epochs = 0;
  if (epochs == given.end() || settings.epochs == 0) return {};
  const bool are_both = steps != given.end() && settings.steps > 0;
  settings.steps = 0;
  if (!are_both) return {};
  return {{"steps and epochs both say how long the run is; allowed: one of them",
           steps->second.origin + ", " + epochs->second.origin}};
}

using Sources = std::array<RawValues, 3>;

// No default, and what the run had that goes on.
bool is_of_checkpoint(const std::string& key, const Settings& settings,
                      const ConfigContext& context) {
  const Settings* before = context.base ? context.base : context.going_on;
  const Setting& setting = *find_setting(key);
  return context.verb == "train" && before &&
         setting.value(settings) == setting.value(*before) &&
         setting.value(settings) != setting.value(Settings());
}

// Where the settings that do not fit together were set: "--lr, a.toml line 2". Of many,
// those that the text names.
std::string origins_of(const Conflict& conflict, const Sources& sources,
                       const ConfigContext& context, const Settings& settings) {
  std::vector<std::string> all, named;
  const auto add = [](const std::string& origin, std::vector<std::string>& origins) {
    if (std::ranges::count(origins, origin) == 0) origins.push_back(origin);
  };
  for (const std::string& key : conflict.keys) {
    std::string origin = key == "ranks" ? context.ranks_from : "";
    for (const RawValues& source : sources)
      if (const auto found = source.find(key); found != source.end())
        origin = found->second.origin;
    if (origin.empty() && is_of_checkpoint(key, settings, context))
      origin = "the checkpoint";
    if (origin.empty()) continue;
    add(origin, all);
    if (conflict.text.find(key) != conflict.text.npos) add(origin, named);
  }
  return fmt::format("{}", fmt::join(named.empty() ? all : named, ", "));
}

// What an optimizer was told says nothing to another one.
void forget_other_optimizer(const Settings& base, const IsGiven& is_given,
                            Settings& settings) {
  if (settings.optimizer == base.optimizer) return;
  for (const auto& [key, readers] : readers_of_constants()) {
    const Setting& setting = *find_setting(key);
    if (!is_given(key)) assign(setting, raw_of(setting.value(Settings())), settings);
  }
}

// What is given for a GPU, and is nothing to a CPU. Ranks may share a GPU that is not
// there: there is none that they would quarrel about.
std::vector<Conflict> conflicts_without_gpu(Settings settings,
                                            const ConfigContext& context,
                                            const IsGiven& is_given) {
  settings.device = "cpu";
  std::vector<Conflict> found = find_conflicts(settings, context);
  std::erase_if(found, [&](const Conflict& conflict) {
    const auto is_told = [&](const std::string& key) {
      return key != "device" && key != "share_gpu" && is_given(key);
    };
    return std::ranges::count(conflict.keys, "device") == 0 ||
           std::ranges::none_of(conflict.keys, is_told);
  });
  if (found.empty() || context.has_gpu()) return {};
  const std::string device = "device is cpu";
  for (Conflict& conflict : found)
    if (const size_t at = conflict.text.find(device); at != std::string::npos)
      conflict.text.replace(at, device.size(), "device auto found no GPU");
  return found;
}

// Each source replaces what those before it have set; a mistake is told even where it is
// replaced.
Sources read_sources(const CommandLine& line, const std::vector<std::string>& environment,
                     Problems& problems, bool& file_is_unread) {
  Sources sources;
  const size_t before = problems.size();
  if (!line.config_file.empty())
    sources[0] = values_from_file(line.config_file, problems);
  file_is_unread = sources[0].empty() && problems.size() > before;
  sources[1] = values_from_environment(environment, problems);
  sources[2] = line.flags;
  return sources;
}

}  // namespace

RawValues given_values(const CommandLine& line,
                       const std::vector<std::string>& environment) {
  Problems told_elsewhere;
  bool file_is_unread = false;
  RawValues given;
  for (const RawValues& source :
       read_sources(line, environment, told_elsewhere, file_is_unread))
    for (const auto& [key, raw] : source) given[key] = raw;
  return given;
}

Settings read_settings(const CommandLine& line,
                       const std::vector<std::string>& environment,
                       const ConfigContext& context) {
  Problems problems = line.problems;
  bool file_is_unread = false;
  const Sources sources = read_sources(line, environment, problems, file_is_unread);
  for (const auto& [key, raw] : line.flags) {
    if (!find_verb(context.verb).takes(*find_setting(key)))
      problems.push_back(
          {fmt::format("{} does not use {}", context.verb, key), raw.origin});
  }

  Settings settings = context.base ? *context.base : Settings();
  const bool has_one_family = context.models && context.models->size() == 1;
  if (!context.base && has_one_family) settings.model = context.models->front().name;
  std::set<std::string> unread;
  for (const RawValues& source : sources) {
    for (const auto& [key, raw] : source) {
      Problems found = assign(*find_setting(key), raw, settings);
      if (!found.empty()) unread.insert(key);
      append(problems, std::move(found));
    }
    append(problems, choose_length(source, settings));
  }
  const auto is_given = [&](const std::string& key) {
    return std::ranges::any_of(
        sources, [&](const RawValues& source) { return source.contains(key); });
  };
  // A preset says which family it is of.
  if ((!context.base || is_given("preset")) && context.models && !is_given("model") &&
      !settings.preset.empty())
    if (const ModelFamily* family = family_of_preset(*context.models, settings.preset))
      settings.model = family->name;
  if (!context.base && context.may_begin)
    choose_for_run(settings, context.going_on, is_given);
  if (context.base) forget_other_optimizer(*context.base, is_given, settings);
  if (context.may_begin) {
    choose_accumulate(settings, context.base ? context.base : context.going_on, is_given);
    if (context.base && settings.warmup_steps == kUsualWarmup)
      settings.warmup_steps = context.base->warmup_steps;
    choose_for_machine(settings, is_given);
  }
  const auto is_unread = [&](const std::string& key) {
    return file_is_unread || unread.contains(key);
  };
  ConfigContext actual = context;
  if (context.may_start_ranks && settings.ranks > 0)
    actual.num_ranks = static_cast<int>(settings.ranks);
  if (context.verb == "plan" && !context.base && !is_given("global_batch") &&
      actual.num_ranks > 0)
    settings.global_batch =
        next_multiple(settings.global_batch, settings.micro_batch * actual.num_ranks);
  // The hosts of a file may have GPUs where this one has none.
  const bool is_here = settings.hosts.empty() || !context.may_start_ranks;
  std::vector<Conflict> conflicts;
  if (context.checks_fit) conflicts = find_conflicts(settings, actual);
  if (context.checks_fit && context.has_gpu && settings.device == "auto" && is_here)
    std::ranges::move(conflicts_without_gpu(settings, actual, is_given),
                      std::back_inserter(conflicts));
  for (const Conflict& conflict : conflicts) {
    // With a default in the place of what could not be read, a conflict says nothing.
    if (std::ranges::none_of(conflict.keys, is_unread))
      problems.push_back(
          {conflict.text, origins_of(conflict, sources, context, settings)});
  }
  if (!problems.empty()) throw to_error(problems, context.verb);
  return settings;
}

}  // namespace zero::launcher
