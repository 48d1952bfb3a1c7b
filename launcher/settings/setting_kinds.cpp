#include "launcher/settings/setting_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "engine/options/check_options.h"
#include "launcher/settings/lora_setting.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

using Type = RawValue::Type;

// A setting that is described, with how it is read and, by `show`, written.
template <class T, class Assign, class Show = std::identity>
Setting make(Named<T> named, Description about, Assign assign, Show show = {}) {
  Setting setting{named.key, about.type, about.placeholder, about.allowed, about.help};
  setting.assign = assign;
  setting.value = [=, member = named.member](const Settings& settings) -> nlohmann::json {
    return show(settings.*member);
  };
  setting.option = named.option;
  if (named.tell)
    setting.tell = [named](const Settings& settings, Options& options) {
      named.tell(options, settings.*named.member);
    };
  return setting;
}

// Of one word: stores what parse(word) gives; it gives nothing for what is not allowed.
template <class T, class Parse, class Show = std::identity>
Setting of_word(Named<T> named, Description about, Parse parse, Show show = {}) {
  const auto assign = [=, member = named.member](Settings& settings, const Words& words) {
    const std::optional<T> value = parse(words[0]);
    if (value) settings.*member = *value;
    return value.has_value();
  };
  return make(named, about, assign, show);
}

// Of any number of words, all of which are allowed.
template <class IsAllowed>
Setting of_words(Named<Words> named, Description about, IsAllowed is_allowed) {
  const auto assign = [=, member = named.member](Settings& settings, const Words& words) {
    settings.*member = words;
    return std::ranges::all_of(words, is_allowed);
  };
  Setting setting = make(named, about, assign);
  setting.is_list = true;
  return setting;
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

Setting word(Named<std::string> named, Description about,
             std::function<bool(const std::string&)> is_allowed) {
  return of_word(named, about, [=](const std::string& word) {
    return is_allowed(word) ? std::optional(word) : std::nullopt;
  });
}

Setting integer(Named<int64_t> named, int64_t low, int64_t high, std::string help) {
  const bool is_bounded = high != std::numeric_limits<int64_t>::max();
  const std::string allowed = is_bounded
                                  ? fmt::format("an integer from {} to {}", low, high)
                                  : fmt::format("an integer from {}, below 2^63", low);
  return of_word(named, {Type::kNumber, "N", allowed, help},
                 [=](const std::string& word) {
                   const auto value = parse_integer(word);
                   return value && *value >= low && *value <= high ? value : std::nullopt;
                 });
}

Setting share(Named<double> named, std::string help) {
  return of_word(named, {Type::kNumber, "X", "a number from 0 to 1", help},
                 parse_fraction);
}

Setting number(Named<double> named, double high, std::string help) {
  const std::string allowed = std::isinf(high)
                                  ? "a finite number, 0 or more"
                                  : fmt::format("a number from 0, below {}", high);
  return of_word(named, {Type::kNumber, "X", allowed, help},
                 [=](const std::string& word) {
                   const auto value = parse_number(word);
                   return value && *value >= 0 && *value < high ? value : std::nullopt;
                 });
}

Setting two_fractions(Named<std::array<double, 2>> named, std::string help) {
  const std::string allowed = "two numbers from 0, below 1, as 0.9,0.95";
  const auto assign = [member = named.member](Settings& settings, const Words& words) {
    if (words.size() != 2) return false;
    for (size_t i = 0; i < 2; ++i) {
      const auto value = parse_number(words[i]);
      if (!value || *value < 0 || *value >= 1) return false;
      (settings.*member)[i] = *value;
    }
    return true;
  };
  Setting setting = make(named, {Type::kNumber, "A,B", allowed, help}, assign);
  setting.is_list = setting.is_split_at_commas = true;
  return setting;
}

Setting boolean(Named<bool> named, std::string help) {
  return of_word(named, {Type::kBoolean, "true|false", "true or false", help},
                 parse_boolean);
}

Setting duration(Named<int64_t> named, std::string help) {
  const std::string allowed =
      "minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes "
      "or days-hours:minutes:seconds, such as 23:30:00; or a time with units, such as "
      "12h";
  const auto parse = [](const std::string& word) {
    const auto seconds = parse_duration(word);
    return seconds ? seconds : parse_span(word);
  };
  return of_word(named, {Type::kWords, "TIME", allowed, help}, parse, format_duration);
}

Setting span(Named<int64_t> named, std::string help) {
  const auto parse = [](const std::string& word) {
    return word == "0" ? std::optional<int64_t>(0) : parse_span(word);
  };
  return of_word(
      named, {Type::kWords, "TIME", "a time such as 90s, 10min or 1h30min, or 0", help},
      parse, format_span);
}

Setting size(Named<int64_t> named, std::string help) {
  const std::string allowed =
      "an amount with its unit, such as 16GiB, 512MiB or 64G, or 0; a bare number is "
      "bytes, from 1048576 on";
  return of_word(named, {Type::kWords, "SIZE", allowed, help}, parse_told_size,
                 format_size);
}

Setting interval(Named<SaveInterval> named, std::string help) {
  const std::string allowed =
      "a number of steps, or a time such as 90s, 10min or 1h30min";
  const auto show = [](const SaveInterval& every) -> nlohmann::json {
    if (every.seconds > 0) return format_span(every.seconds);
    return every.steps;
  };
  return of_word(named, {Type::kWords, "STEPS|TIME", allowed, help}, parse_interval,
                 show);
}

Setting step_range(Named<StepRange> named, std::string help) {
  const std::string allowed =
      "steps=FIRST:LAST with 1 <= FIRST <= LAST, such as steps=3:5";
  const auto show = [](const StepRange& steps) {
    return steps.last == 0 ? "" : fmt::format("steps={}:{}", steps.first, steps.last);
  };
  return of_word(named, {Type::kString, "steps=FIRST:LAST", allowed, help},
                 parse_step_range, show);
}

// A path would end at the first NUL.
bool is_text_without_nul(const std::string& word) {
  return is_utf8(word) && word.find('\0') == std::string::npos;
}

Setting text(Named<std::string> named, std::string placeholder, std::string help) {
  return word(named, {Type::kString, placeholder, "text in UTF-8", help},
              is_text_without_nul);
}

Setting choice(Named<std::string> named, const Words& choices, std::string help) {
  const std::string placeholder = fmt::format("{}", fmt::join(choices, "|"));
  return word(named, {Type::kString, placeholder, alternatives(choices), help},
              [=](const std::string& word) { return contains(choices, word); });
}

Setting choice(Named<std::string> named, const Words& choices, std::string help,
               std::string option, std::function<void(Options&, size_t)> tell) {
  named.option = std::move(option);
  named.tell = [=](Options& options, const std::string& word) {
    tell(options, std::ranges::find(choices, word) - choices.begin());
  };
  return choice(named, choices, help);
}

Setting gradient_type(Named<std::string> named, std::string help) {
  Setting setting = choice(named, {"fp32", "bf16"}, help);
  setting.allowed = kTypesOfGradients;
  return setting;
}

Setting list(Named<Words> named, std::string placeholder, std::string help) {
  const std::string allowed = "words in UTF-8, none of them empty";
  return of_words(
      named, {Type::kString, placeholder, allowed, help},
      [](const std::string& word) { return !word.empty() && is_text_without_nul(word); });
}

Setting comma_list(Named<Words> named, std::string placeholder, std::string help) {
  Setting setting = list(named, std::move(placeholder), std::move(help));
  setting.is_split_at_commas = true;
  return setting;
}

Setting rules(Named<Words> named, std::string form, std::string help,
              std::function<bool(const std::string&)> is_rule) {
  return of_words(named, {Type::kString, "RULE", form, help}, std::move(is_rule));
}

Setting choices(Named<Words> named, const Words& choices, std::string help) {
  Setting setting =
      of_words(named,
               {Type::kString, fmt::format("{}", fmt::join(choices, ",")),
                alternatives(choices) + ", with commas between them", help},
               [=](const std::string& word) { return contains(choices, word); });
  setting.is_split_at_commas = true;
  return setting;
}

}  // namespace zero::launcher
