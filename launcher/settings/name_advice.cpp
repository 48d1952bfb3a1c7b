#include "launcher/settings/name_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "launcher/settings/foreign_names.h"
#include "launcher/settings/names.h"
#include "launcher/settings/plain_flags.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

using KeySpelling = std::function<std::string(const std::string& key)>;

// The names that an advice marks: calls `name` for each, and puts what it returns in its
// place. "here: @lr" is "here: --lr" on a command line.
std::string with_names(const std::string& advice, const KeySpelling& name) {
  std::string text;
  for (size_t i = 0; i < advice.size();) {
    if (advice[i] != '@') {
      text += advice[i++];
      continue;
    }
    const size_t end = std::min(
        advice.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", i + 1), advice.size());
    text += name(advice.substr(i + 1, end - i - 1));
    i = end;
  }
  return text;
}

std::vector<std::string> marks_in(const std::string& advice) {
  std::vector<std::string> names;
  with_names(advice, [&](const std::string& name) {
    names.push_back(name);
    return name;
  });
  return names;
}

// One that is no setting.
std::string plain_flag(std::string name) {
  std::ranges::replace(name, '_', '-');
  return "--" + name;
}

bool takes_name(const Verb& verb, const std::string& name) {
  const Setting* setting = find_setting(name);
  return setting ? verb.takes(*setting) || verb.takes(flag_of(*setting))
                 : verb.takes(plain_flag(name));
}

// "--temperature" for generate; for others "--sample-temperature (generate:
// --temperature)".
std::string flag_for(const std::string& name, const Verb& verb) {
  const Setting* setting = find_setting(name);
  if (!setting) return plain_flag(name);
  if (const std::string own = verb.own_flag(name); !own.empty()) return own;
  std::string text = flag_of(*setting);
  for (const Verb& other : verb_table())
    if (const std::string own = other.own_flag(name); !own.empty())
      text += fmt::format(" ({}: {})", other.name, own);
  return text;
}

// Not of flags that are no settings.
bool is_of_settings(const std::string& advice) {
  return std::ranges::all_of(marks_in(advice),
                             [](const std::string& name) { return find_setting(name); });
}

// The first whose names the verb takes; else one of settings, with a remark.
std::string foreign_advice_for(const std::vector<std::string>& advices,
                               const Verb& verb) {
  const auto spelled = [&](const std::string& advice) {
    return "; " +
           with_names(advice, [&](const auto& name) { return flag_for(name, verb); });
  };
  for (const std::string& advice : advices)
    if (std::ranges::all_of(marks_in(advice),
                            [&](const auto& name) { return takes_name(verb, name); }))
      return spelled(advice);
  for (const std::string& advice : advices)
    if (is_of_settings(advice))
      return spelled(advice) + ", which " + verb.name + " does not use";
  return "";
}

std::string nearest_flag(const std::string& name, const Verb& verb) {
  std::vector<std::string> names;
  for (const std::string& flag : flags_of_verb(verb))
    if (flag.starts_with("--")) names.push_back(flag.substr(2));
  return nearest(name, names);
}

}  // namespace

std::string advice_for_flag(const std::string& name, const Verb& verb) {
  const std::string foreign = foreign_advice_for(foreign_name_advice(name), verb);
  if (!foreign.empty()) return foreign;
  const std::string near = nearest_flag(name, verb);
  if (!near.empty()) return "; nearest: --" + near;
  const std::string misspelt = nearly_foreign_name_advice(name);
  return misspelt.empty() ? "" : foreign_advice_for({misspelt}, verb);
}

std::string advice_for(const std::string& name, Spelling spelling) {
  const auto spelled = [&](const std::string& key) {
    const Setting* setting = find_setting(key);
    return setting ? spelling(*setting) : key;
  };
  for (const std::string& advice : foreign_name_advice(name))
    if (is_of_settings(advice)) return "; " + with_names(advice, spelled);
  std::vector<std::string> keys;
  for (const Setting& setting : setting_table()) keys.push_back(setting.key);
  const std::string key = nearest(name, keys);
  if (!key.empty()) return "; nearest: " + spelled(key);
  const std::string misspelt = nearly_foreign_name_advice(name);
  if (misspelt.empty() || !is_of_settings(misspelt)) return "";
  return "; " + with_names(misspelt, spelled);
}

}  // namespace zero::launcher
