#include "launcher/settings/rules.h"

#include <map>
#include <string_view>
#include <utility>

#include "base/names.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

// Of "GLOB: key=value key": the pattern, and each key with its value.
struct Rule {
  std::string glob;
  std::map<std::string, std::string> values;

  // Moves the key's value out.
  std::optional<std::string> take(const std::string& key) {
    const auto found = values.find(key);
    if (found == values.end()) return std::nullopt;
    std::string value = std::move(found->second);
    values.erase(found);
    return value;
  }
};

std::optional<Rule> parse_rule(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == 0 || colon == text.npos || !is_utf8(text)) return std::nullopt;
  Rule rule{text.substr(0, colon), {}};
  std::string rest = text.substr(colon + 1);
  for (char& c : rest) c = c == ',' ? ' ' : c;
  for (const std::string& word : split(rest, ' ')) {
    if (word.empty()) continue;
    const size_t equals = std::min(word.find('='), word.size());
    std::string key = word.substr(0, equals);
    for (char& c : key) c = c == '-' ? '_' : c;
    const std::string value = equals < word.size() ? word.substr(equals + 1) : "";
    if (!rule.values.emplace(key, value).second) return std::nullopt;
  }
  if (rule.values.empty()) return std::nullopt;
  return rule;
}

// "0.1x": what the learning rate is multiplied with.
std::optional<double> parse_factor(const std::string& text) {
  if (!text.ends_with('x')) return std::nullopt;
  const auto factor = parse_number(text.substr(0, text.size() - 1));
  return factor && *factor >= 0 ? factor : std::nullopt;
}

}  // namespace

std::optional<ParamGroup> parse_group(const std::string& text) {
  std::optional<Rule> rule = parse_rule(text);
  if (!rule) return std::nullopt;
  ParamGroup group{.pattern = rule->glob};
  if (const auto lr = rule->take("lr")) {
    const auto factor = parse_factor(*lr);
    if (!factor) return std::nullopt;
    group.lr_scale = *factor;
  }
  if (const auto decay = rule->take("weight_decay")) {
    group.weight_decay = parse_number(*decay);
    if (!group.weight_decay || *group.weight_decay < 0) return std::nullopt;
  }
  if (const auto freeze = rule->take("freeze")) {
    if (!freeze->empty()) return std::nullopt;
    group.frozen = true;
  }
  return rule->values.empty() ? std::optional(group) : std::nullopt;
}

}  // namespace zero::launcher
