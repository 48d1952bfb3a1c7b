#include "launcher/settings/rules.h"

#include <algorithm>
#include <map>
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
  std::ranges::replace(rest, ',', ' ');
  for (const std::string& word : split(rest, ' ')) {
    if (word.empty()) continue;
    const size_t equals = std::min(word.find('='), word.size());
    std::string key = word.substr(0, equals);
    std::ranges::replace(key, '-', '_');
    const std::string value = equals < word.size() ? word.substr(equals + 1) : "";
    if (!rule.values.emplace(key, value).second) return std::nullopt;
  }
  if (rule.values.empty()) return std::nullopt;
  return rule;
}

// What the key's word means; false for a word that means nothing.
template <class T>
bool take_word(Rule& rule, const std::string& key, const std::map<std::string, T>& words,
               std::optional<T>& value) {
  const auto word = rule.take(key);
  if (!word) return true;
  const auto found = words.find(*word);
  if (found == words.end()) return false;
  value = found->second;
  return true;
}

// "0.1x": what the learning rate is multiplied with.
std::optional<double> parse_factor(const std::string& text) {
  if (!text.ends_with('x')) return std::nullopt;
  const auto factor = parse_number(text.substr(0, text.size() - 1));
  return factor && *factor >= 0 ? factor : std::nullopt;
}

}  // namespace

std::optional<UnitOption> parse_unit(const std::string& text) {
  static const std::map<std::string, DType> types = {{"fp32", DType::kFp32},
                                                     {"bf16", DType::kBf16}};
  static const std::map<std::string, Offload> places = {
      {"none", Offload::kNone},
      {"optimizer", Offload::kOptimizer},
      {"all", Offload::kAll}};
  static const std::map<std::string, bool> truths = {{"true", true}, {"false", false}};
  std::optional<Rule> rule = parse_rule(text);
  if (!rule) return std::nullopt;
  UnitOption option{.pattern = rule->glob};
  if (!take_word(*rule, "dtype", types, option.dtype) ||
      !take_word(*rule, "reshard", truths, option.reshard) ||
      !take_word(*rule, "offload", places, option.offload))
    return std::nullopt;
  return rule->values.empty() ? std::optional(option) : std::nullopt;
}

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

std::optional<Thaw> parse_thaw(const std::string& text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const auto step = parse_integer(text.substr(0, colon));
  if (!step || *step < 0 || colon + 1 >= text.size() || !is_utf8(text))
    return std::nullopt;
  return Thaw{*step, text.substr(colon + 1)};
}

}  // namespace zero::launcher
