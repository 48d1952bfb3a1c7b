#include "launcher/settings/setting_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

using Words = std::vector<std::string>;
using Type = RawValue::Type;

// A setting that is described, with how it is read and, by `show`, written.
template <class T, class Assign, class Show = std::identity>
Setting make(Setting setting, T Settings::*member, Assign assign, Show show = {}) {
  setting.value = [=](const Settings& settings) -> nlohmann::json {
    return show(settings.*member);
  };
  setting.assign = assign;
  return setting;
}

// Of one word: stores what parse(word) gives; it gives nothing for what is not allowed.
template <class T, class Parse, class Show = std::identity>
Setting of_word(Setting setting, T Settings::*member, Parse parse, Show show = {}) {
  const auto assign = [=](Settings& settings, const Words& words) {
    const std::optional<T> value = parse(words[0]);
    if (value) settings.*member = *value;
    return value.has_value();
  };
  return make(std::move(setting), member, assign, show);
}

// Of any number of words, all of which are allowed.
template <class IsAllowed>
Setting of_words(Setting setting, Words Settings::*member, IsAllowed is_allowed) {
  setting.is_list = true;
  const auto assign = [=](Settings& settings, const Words& words) {
    settings.*member = words;
    return std::ranges::all_of(words, is_allowed);
  };
  return make(std::move(setting), member, assign);
}

bool contains(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

// "90s" or "100".
std::optional<SaveInterval> parse_interval(const std::string& word) {
  if (const auto seconds = parse_span(word)) return SaveInterval{0, *seconds};
  const auto steps = parse_integer(word);
  return steps && *steps >= 0 ? std::optional(SaveInterval{*steps, 0}) : std::nullopt;
}

// "steps=3:5"; nothing for other words.
std::optional<StepRange> parse_step_range(const std::string& word) {
  constexpr std::string_view kPrefix = "steps=";
  if (word.empty()) return StepRange{};
  if (!word.starts_with(kPrefix)) return std::nullopt;
  const Words ends = split(std::string_view(word).substr(kPrefix.size()), ':');
  if (ends.size() != 2) return std::nullopt;
  const auto first = parse_integer(ends[0]), last = parse_integer(ends[1]);
  if (!first || !last || *first < 1 || *last < *first) return std::nullopt;
  return StepRange{*first, *last};
}

}  // namespace

Setting integer(std::string key, int64_t Settings::*member, int64_t low, int64_t high,
                std::string help) {
  const bool is_bounded = high != std::numeric_limits<int64_t>::max();
  const std::string allowed = is_bounded
                                  ? fmt::format("an integer from {} to {}", low, high)
                                  : fmt::format("an integer from {}, below 2^63", low);
  return of_word({std::move(key), Type::kNumber, "N", allowed, std::move(help)}, member,
                 [=](const std::string& word) {
                   const auto value = parse_integer(word);
                   return value && *value >= low && *value <= high ? value : std::nullopt;
                 });
}

Setting number(std::string key, double Settings::*member, double high, std::string help) {
  const std::string allowed = std::isinf(high)
                                  ? "a finite number, 0 or more"
                                  : fmt::format("a number from 0, below {}", high);
  return of_word({std::move(key), Type::kNumber, "X", allowed, std::move(help)}, member,
                 [=](const std::string& word) {
                   const auto value = parse_number(word);
                   return value && *value >= 0 && *value < high ? value : std::nullopt;
                 });
}

Setting two_fractions(std::string key, std::array<double, 2> Settings::*member,
                      std::string help) {
  Setting setting = make({std::move(key), Type::kNumber, "A,B",
                          "two numbers from 0, below 1, as 0.9,0.95", std::move(help)},
                         member, [=](Settings& settings, const Words& words) {
                           if (words.size() != 2) return false;
                           for (size_t i = 0; i < 2; ++i) {
                             const auto value = parse_number(words[i]);
                             if (!value || *value < 0 || *value >= 1) return false;
                             (settings.*member)[i] = *value;
                           }
                           return true;
                         });
  setting.is_list = setting.is_split_at_commas = true;
  return setting;
}

Setting boolean(std::string key, bool Settings::*member, std::string help) {
  return of_word(
      {std::move(key), Type::kBoolean, "true|false", "true or false", std::move(help)},
      member, parse_boolean);
}

Setting duration(std::string key, int64_t Settings::*member, std::string help) {
  const std::string allowed =
      "minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes "
      "or days-hours:minutes:seconds, such as 23:30:00";
  return of_word({std::move(key), Type::kWords, "TIME", allowed, std::move(help)}, member,
                 parse_duration, format_duration);
}

Setting span(std::string key, int64_t Settings::*member, std::string help) {
  const std::string allowed = "a time such as 90s, 10min or 1h30min, or 0";
  const auto parse = [](const std::string& word) {
    return word == "0" ? std::optional<int64_t>(0) : parse_span(word);
  };
  return of_word({std::move(key), Type::kWords, "TIME", allowed, std::move(help)}, member,
                 parse, format_span);
}

Setting size(std::string key, int64_t Settings::*member, std::string help) {
  const std::string allowed = "an amount such as 16GiB, 512MiB or 64G, or 0";
  return of_word({std::move(key), Type::kWords, "SIZE", allowed, std::move(help)}, member,
                 parse_size, format_size);
}

Setting interval(std::string key, SaveInterval Settings::*member, std::string help) {
  const std::string allowed =
      "a number of steps, or a time such as 90s, 10min or 1h30min";
  const auto show = [](const SaveInterval& every) -> nlohmann::json {
    if (every.seconds > 0) return format_span(every.seconds);
    return every.steps;
  };
  return of_word({std::move(key), Type::kWords, "STEPS|TIME", allowed, std::move(help)},
                 member, parse_interval, show);
}

Setting step_range(std::string key, StepRange Settings::*member, std::string help) {
  const std::string allowed =
      "steps=FIRST:LAST with 1 <= FIRST <= LAST, such as steps=3:5";
  const auto show = [](const StepRange& steps) {
    return steps.last == 0 ? "" : fmt::format("steps={}:{}", steps.first, steps.last);
  };
  return of_word(
      {std::move(key), Type::kString, "steps=FIRST:LAST", allowed, std::move(help)},
      member, parse_step_range, show);
}

Setting text(std::string key, std::string Settings::*member, std::string placeholder,
             std::string help) {
  return of_word({std::move(key), Type::kString, std::move(placeholder), "text in UTF-8",
                  std::move(help)},
                 member, [](const std::string& word) {
                   return is_utf8(word) ? std::optional(word) : std::nullopt;
                 });
}

Setting choice(std::string key, std::string Settings::*member, const Words& choices,
               std::string help) {
  const std::string placeholder = fmt::format("{}", fmt::join(choices, "|"));
  return of_word({std::move(key), Type::kString, std::move(placeholder),
                  alternatives(choices), std::move(help)},
                 member, [=](const std::string& word) {
                   return contains(choices, word) ? std::optional(word) : std::nullopt;
                 });
}

Setting recomputation(std::string key, std::string Settings::*member, std::string help) {
  return of_word({std::move(key), Type::kString, "unit|none|every:K",
                  "unit, none or every:K with K from 1 to 1048576", std::move(help)},
                 member, [](const std::string& word) {
                   return parse_recompute(word) ? std::optional(word) : std::nullopt;
                 });
}

Setting fraction_or_auto(std::string key, std::string Settings::*member,
                         std::string help) {
  return of_word({std::move(key), Type::kWords, "F|auto", "a number from 0 to 1, or auto",
                  std::move(help)},
                 member, [](const std::string& word) {
                   const bool is_known = word == "auto" || parse_fraction(word);
                   return is_known ? std::optional(word) : std::nullopt;
                 });
}

Setting list(std::string key, Words Settings::*member, std::string placeholder,
             std::string help) {
  const std::string allowed = "words in UTF-8, none of them empty";
  return of_words(
      {std::move(key), Type::kString, std::move(placeholder), allowed, std::move(help)},
      member, [](const std::string& word) { return !word.empty() && is_utf8(word); });
}

Setting choices(std::string key, Words Settings::*member, const Words& choices,
                std::string help) {
  const std::string placeholder = fmt::format("{}", fmt::join(choices, ",")),
                    allowed = alternatives(choices) + ", with commas between them";
  Setting setting = of_words(
      {std::move(key), Type::kString, std::move(placeholder), allowed, std::move(help)},
      member, [=](const std::string& word) { return contains(choices, word); });
  setting.is_split_at_commas = true;
  return setting;
}

}  // namespace zero::launcher
