#include "launcher/settings/setting_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

using Words = std::vector<std::string>;
using Type = RawValue::Type;

Setting describe(const std::string& key, Type type, const std::string& placeholder,
                 const std::string& allowed, const std::string& help) {
  Setting setting;
  setting.key = key;
  setting.type = type;
  setting.placeholder = placeholder;
  setting.allowed = allowed;
  setting.help = help;
  return setting;
}

template <class T>
auto reader_of(T Settings::*member) {
  return
      [member](const Settings& settings) -> nlohmann::json { return settings.*member; };
}

// Stores what parse(word) gives; false when it gives nothing.
template <class T, class Parse>
auto writer_to(T Settings::*member, Parse parse) {
  return [member, parse](Settings& settings, const Words& words) {
    const std::optional<T> value = parse(words[0]);
    if (value) settings.*member = *value;
    return value.has_value();
  };
}

bool contains(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
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

// A number that people write with its unit.
template <class Parse>
Setting quantity(Setting setting, int64_t Settings::*member, Parse parse,
                 std::string (*format)(int64_t)) {
  setting.value = [=](const Settings& settings) { return format(settings.*member); };
  setting.assign = writer_to(member, parse);
  return setting;
}

}  // namespace

Setting integer(const std::string& key, int64_t Settings::*member, int64_t low,
                int64_t high, const std::string& help) {
  std::string allowed = fmt::format("an integer from {}", low);
  if (high != std::numeric_limits<int64_t>::max()) allowed += fmt::format(" to {}", high);
  Setting setting = describe(key, Type::kNumber, "N", allowed, help);
  setting.value = reader_of(member);
  setting.assign = writer_to(member, [=](const std::string& word) {
    const auto value = parse_integer(word);
    return value && *value >= low && *value <= high ? value : std::nullopt;
  });
  return setting;
}

Setting number(const std::string& key, double Settings::*member, double high,
               const std::string& help) {
  const std::string allowed = std::isinf(high)
                                  ? "a finite number, 0 or more"
                                  : fmt::format("a number from 0, below {}", high);
  Setting setting = describe(key, Type::kNumber, "X", allowed, help);
  setting.value = reader_of(member);
  setting.assign = writer_to(member, [=](const std::string& word) {
    const auto value = parse_number(word);
    return value && *value >= 0 && *value < high ? value : std::nullopt;
  });
  return setting;
}

Setting two_fractions(const std::string& key, std::array<double, 2> Settings::*member,
                      const std::string& help) {
  Setting setting =
      describe(key, Type::kNumber, "A,B", "two numbers from 0, below 1", help);
  setting.is_list = setting.is_split_at_commas = true;
  setting.value = reader_of(member);
  setting.assign = [member](Settings& settings, const Words& words) {
    if (words.size() != 2) return false;
    for (size_t i = 0; i < 2; ++i) {
      const auto value = parse_number(words[i]);
      if (!value || *value < 0 || *value >= 1) return false;
      (settings.*member)[i] = *value;
    }
    return true;
  };
  return setting;
}

Setting boolean(const std::string& key, bool Settings::*member, const std::string& help) {
  Setting setting = describe(key, Type::kBoolean, "true|false", "true or false", help);
  setting.value = reader_of(member);
  setting.assign = writer_to(member, parse_boolean);
  return setting;
}

Setting duration(const std::string& key, int64_t Settings::*member,
                 const std::string& help) {
  return quantity(describe(key, Type::kWords, "TIME",
                           "minutes, minutes:seconds, hours:minutes:seconds, days-hours, "
                           "days-hours:minutes "
                           "or days-hours:minutes:seconds, such as 23:30:00",
                           help),
                  member, parse_duration, format_duration);
}

Setting span(const std::string& key, int64_t Settings::*member, const std::string& help) {
  return quantity(
      describe(key, Type::kWords, "TIME", "a time such as 90s, 10min or 1h30min, or 0",
               help),
      member,
      [](const std::string& word) {
        return word == "0" ? std::optional<int64_t>(0) : parse_span(word);
      },
      format_span);
}

Setting size(const std::string& key, int64_t Settings::*member, const std::string& help) {
  return quantity(describe(key, Type::kWords, "SIZE",
                           "an amount such as 16GiB, 512MiB or 64G, or 0", help),
                  member, parse_size, format_size);
}

Setting interval(const std::string& key, SaveInterval Settings::*member,
                 const std::string& help) {
  Setting setting =
      describe(key, Type::kWords, "STEPS|TIME",
               "a number of steps, or a time such as 90s, 10min or 1h30min", help);
  setting.value = [member](const Settings& settings) -> nlohmann::json {
    const auto [steps, seconds] = settings.*member;
    if (seconds > 0) return format_span(seconds);
    return steps;
  };
  setting.assign = writer_to(member, [](const std::string& word) {
    if (const auto seconds = parse_span(word))
      return std::optional(SaveInterval{0, *seconds});
    const auto steps = parse_integer(word);
    return steps && *steps >= 0 ? std::optional(SaveInterval{*steps, 0}) : std::nullopt;
  });
  return setting;
}

Setting step_range(const std::string& key, StepRange Settings::*member,
                   const std::string& help) {
  Setting setting =
      describe(key, Type::kString, "steps=FIRST:LAST",
               "steps=FIRST:LAST with 1 <= FIRST <= LAST, such as steps=3:5", help);
  setting.value = [member](const Settings& settings) -> nlohmann::json {
    const auto [first, last] = settings.*member;
    return last == 0 ? "" : fmt::format("steps={}:{}", first, last);
  };
  setting.assign = writer_to(member, parse_step_range);
  return setting;
}

Setting text(const std::string& key, std::string Settings::*member,
             const std::string& placeholder, const std::string& help) {
  Setting setting = describe(key, Type::kString, placeholder, "text in UTF-8", help);
  setting.value = reader_of(member);
  setting.assign = writer_to(member, [](const std::string& word) {
    return is_utf8(word) ? std::optional(word) : std::nullopt;
  });
  return setting;
}

Setting choice(const std::string& key, std::string Settings::*member,
               const Words& choices, const std::string& help) {
  Setting setting =
      describe(key, Type::kString, fmt::format("{}", fmt::join(choices, "|")),
               alternatives(choices), help);
  setting.value = reader_of(member);
  setting.assign = writer_to(member, [=](const std::string& word) {
    return contains(choices, word) ? std::optional(word) : std::nullopt;
  });
  return setting;
}

Setting list(const std::string& key, Words Settings::*member,
             const std::string& placeholder, const std::string& help) {
  Setting setting = describe(key, Type::kString, placeholder,
                             "words in UTF-8, none of them empty", help);
  setting.is_list = true;
  setting.value = reader_of(member);
  setting.assign = [member](Settings& settings, const Words& words) {
    settings.*member = words;
    return std::ranges::all_of(words,
                               [](auto& word) { return !word.empty() && is_utf8(word); });
  };
  return setting;
}

Setting choices(const std::string& key, Words Settings::*member, const Words& choices,
                const std::string& help) {
  Setting setting = list(key, member, fmt::format("{}", fmt::join(choices, ",")), help);
  setting.allowed = alternatives(choices) + ", with commas between them";
  setting.is_split_at_commas = true;
  setting.assign = [=](Settings& settings, const Words& words) {
    settings.*member = words;
    return std::ranges::all_of(words,
                               [&](auto& word) { return contains(choices, word); });
  };
  return setting;
}

}  // namespace zero::launcher
