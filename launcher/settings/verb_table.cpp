#include "launcher/settings/verb_table.h"

#include <algorithm>
#include <ranges>

#include "launcher/settings/values.h"

namespace zero::launcher {

std::string Verb::own_flag(const std::string& key) const {
  const auto reversed = own_flags | std::views::reverse;  // --prompt before --chat
  const auto found =
      std::ranges::find(reversed, key, [](const auto& own) { return own.second; });
  return found == reversed.end() ? "" : found->first;
}

bool Verb::takes(const Setting& setting) const {
  return settings == kAllSettings ||
         std::ranges::count(split(settings, ' '), setting.key) > 0;
}

bool Verb::takes(const std::string& flag) const {
  const auto of_all = split("--config --help -h --verbose -v --quiet -q", ' ');
  return (flag == "--from" && !folder.empty()) || std::ranges::count(of_all, flag) > 0 ||
         std::ranges::any_of(lines, [&](const VerbLine& line) {
           return split(line.left, ' ')[0] == flag;
         });
}

std::vector<std::string> verb_names() {
  std::vector<std::string> names;
  for (const Verb& verb : verb_table())
    if (!verb.summary.empty()) names.push_back(verb.name);
  return names;
}

const Verb& find_verb(const std::string& name) {
  static const Verb unknown = {.name = "", .settings = kAllSettings};
  const auto found = std::ranges::find(verb_table(), name, &Verb::name);
  return found == verb_table().end() ? unknown : *found;
}

}  // namespace zero::launcher
