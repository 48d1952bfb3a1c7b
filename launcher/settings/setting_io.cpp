// Everything that follows from the table of settings: read a value, tell what is wrong,
// write all, compare two.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>

#include "launcher/settings/names.h"
#include "launcher/settings/setting_table.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

using Type = RawValue::Type;

std::string type_name(Type type) {
  constexpr std::array kNames = {"a number, or a string in quotes", "a string in quotes",
                                 "a number", "true or false", "values of one type"};
  return kNames[static_cast<size_t>(type)];
}

// A file says what type it means; then it must be the right one.
bool has_right_type(const Setting& setting, const RawValue& raw) {
  if (raw.type == Type::kWords) return true;
  if (setting.type == Type::kWords)
    return !raw.is_array && (raw.type == Type::kNumber || raw.type == Type::kString);
  if (raw.is_array && (!setting.is_list || raw.words.empty())) return setting.is_list;
  return raw.type == setting.type;
}

std::string wanted_type(const Setting& setting) {
  return setting.is_list ? "an array, each element " + type_name(setting.type)
                         : type_name(setting.type);
}

// As it was written.
std::string found_text(const Setting& setting, const RawValue& raw) {
  const bool has_commas = raw.is_array || setting.is_split_at_commas;
  std::string words = fmt::format("{}", fmt::join(raw.words, raw.is_array ? ", "
                                                             : has_commas ? ","
                                                                          : " "));
  for (size_t at = 0; (at = words.find('\0', at)) != words.npos;)
    words.replace(at, 1, "\\x00");
  if (raw.is_array) return "[" + words + "]";
  const bool is_bare = raw.type == Type::kNumber || raw.type == Type::kBoolean;
  return is_bare ? words : '"' + words + '"';
}

std::string problem_text(const Setting& setting, const RawValue& raw) {
  if (!has_right_type(setting, raw)) {
    const bool is_quoted = raw.type == Type::kString && setting.type != Type::kString;
    return fmt::format("{} is {}, which has the wrong type; allowed: {}{}", setting.key,
                       found_text(setting, raw), wanted_type(setting),
                       is_quoted ? ", without quotes" : "");
  }
  if (!setting.is_list && raw.words.size() > 1) {
    return fmt::format("{} is given {} times, as {}; allowed: once", setting.key,
                       raw.words.size(), fmt::join(raw.words, " and "));
  }
  const bool is_empty = std::ranges::all_of(raw.words, &std::string::empty);
  if (raw.words.empty() || (setting.is_list && is_empty))
    return fmt::format("{} has no value; allowed: {}", setting.key,
                       setting.is_list && !setting.is_split_at_commas
                           ? flag_of(setting) + " " + setting.placeholder
                           : setting.allowed);
  const std::vector<std::string> words = split(setting.placeholder, '|');
  const std::string near =
      words.size() > 1 && raw.words.size() == 1 ? nearest_value(raw.words[0], words) : "";
  return fmt::format("{} is {}{}; allowed: {}", setting.key, found_text(setting, raw),
                     near.empty() ? "" : "; nearest: " + near, setting.allowed);
}

// JSON's strings, numbers, booleans and arrays of them are TOML as well, but for one
// character that stands in strings alone.
std::string toml_of(const Setting& setting, const Settings& settings) {
  std::string text = setting.value(settings).dump();
  for (size_t at = 0; (at = text.find('\x7f', at)) != text.npos;)
    text.replace(at, 1, "\\u007f");
  return text;
}

}  // namespace

void append(Problems& all, Problems more) {
  all.insert(all.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
}

Error to_error(const Problems& problems, const std::string& verb) {
  const std::string cure =
      fmt::format("zero_launch {} --help lists every setting and what it allows", verb);
  if (problems.size() == 1) {
    return {ExitCode::kUsage, problems[0].text, problems[0].origin, cure};
  }
  std::string text = fmt::format("{} settings cannot be used", problems.size());
  for (const Problem& problem : problems) {
    text += "\n  - " + problem.text;
    if (!problem.origin.empty()) text += fmt::format(" ({})", problem.origin);
  }
  return {ExitCode::kUsage, text, "", cure};
}

const std::map<std::string, std::vector<std::string>>& readers_of_constants() {
  static const std::map<std::string, std::vector<std::string>> readers = {
      {"betas", {"adamw", "lion"}},
      {"eps", {"adamw", "adagrad"}},
      {"momentum", {"sgd"}},
      {"nesterov", {"sgd"}}};
  return readers;
}

std::string key_of(const Setting& setting) { return setting.key; }

std::string flag_of(const Setting& setting) {
  std::string flag = "--" + setting.key;
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string variable_of(const Setting& setting) {
  std::string variable = "ZERO_" + setting.key;
  std::ranges::transform(variable, variable.begin(),
                         [](unsigned char c) { return std::toupper(c); });
  return variable;
}

const Setting* find_setting(const std::string& text, Spelling spelling) {
  const auto found = std::ranges::find(setting_table(), text, spelling);
  return found == setting_table().end() ? nullptr : &*found;
}

std::string word_of(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

RawValue raw_of(const nlohmann::json& value) {
  RawValue raw;
  raw.is_array = value.is_array();
  for (const auto& element : raw.is_array ? value : nlohmann::json{value})
    raw.words.push_back(word_of(element));
  return raw;
}

Problems assign(const Setting& setting, const RawValue& raw, Settings& settings) {
  const bool has_right_count =
      setting.is_list ? raw.is_array || !raw.words.empty() : raw.words.size() == 1;
  if (has_right_count && has_right_type(setting, raw) &&
      setting.assign(settings, raw.words))
    return {};
  return {{problem_text(setting, raw), raw.origin}};
}

nlohmann::json to_json(const Settings& settings) {
  nlohmann::json json;
  for (const Setting& setting : setting_table())
    json[setting.key] = setting.value(settings);
  return json;
}

Settings settings_from_json(const nlohmann::json& json, const std::string& where) {
  Settings settings;
  for (const auto& [key, value] : json.items()) {
    const Setting* setting = find_setting(key);
    const RawValue raw = raw_of(value);
    const bool has_right_shape = setting && raw.is_array == setting->is_list;
    if (!has_right_shape || !assign(*setting, raw, settings).empty()) {
      throw Error(
          ExitCode::kCheckpoint,
          fmt::format("{} = {} is not a setting of this program", key, value.dump()),
          where, "use the version of zero_launch that wrote it");
    }
  }
  return settings;
}

std::string to_toml(const Settings& chosen, const std::set<std::string>& left_out) {
  Settings settings = chosen;
  if (settings.epochs > 0) settings.steps = 0;  // the data told
  std::string text = "# Every setting of zero_launch train.\n", group;
  for (const Setting& setting : setting_table()) {
    if (setting.group != group) text += fmt::format("\n# {}\n", group = setting.group);
    const std::string line = (left_out.contains(setting.key) ? "# " : "") + setting.key +
                             " = " + toml_of(setting, settings);
    text += fmt::format("{:<32}  # {}\n", line, setting.help);
  }
  return text;
}

std::vector<ChangedSetting> changed_settings(const Settings& before,
                                             const Settings& after) {
  std::vector<ChangedSetting> changed;
  for (const Setting& setting : setting_table()) {
    const std::string old_value = toml_of(setting, before),
                      new_value = toml_of(setting, after);
    if (setting.defines_run && old_value != new_value)
      changed.push_back({setting.key, old_value, new_value});
  }
  return changed;
}

}  // namespace zero::launcher
