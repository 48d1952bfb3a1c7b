#include "launcher/settings/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>

#include "base/names.h"
#include "base/text.h"
#include "zero/options.h"

namespace zero::launcher {
namespace {

// "1_000" -> "1000"; an underscore stands between two digits only.
std::optional<std::string> without_underscores(std::string_view text) {
  const auto is_digit = [&](size_t i) {
    return i < text.size() && text[i] >= '0' && text[i] <= '9';
  };
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
    } else if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) {
      return std::nullopt;
    }
  }
  return digits;
}

template <class T>
std::optional<T> parse(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto digits = without_underscores(text);
  if (!digits) return std::nullopt;
  T value{};
  const char* end = digits->data() + digits->size();
  const auto [rest, error] = std::from_chars(digits->data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

struct Unit {
  std::string_view name;
  int64_t size;
};
constexpr Unit kTimes[] = {{"s", 1},    {"sec", 1},  {"m", 60},
                           {"min", 60}, {"h", 3600}, {"d", 86400}};

constexpr Unit kSizes[] = {{"", 1},
                           {"B", 1},
                           {"K", 1 << 10},
                           {"M", 1 << 20},
                           {"G", 1 << 30},
                           {"T", 1LL << 40},
                           {"KiB", 1 << 10},
                           {"MiB", 1 << 20},
                           {"GiB", 1 << 30},
                           {"TiB", 1LL << 40},
                           {"KB", 1000},
                           {"MB", 1000000},
                           {"GB", 1000000000},
                           {"TB", 1000000000000}};

// What stands between line ends; behind the last one, too.
std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0, end = 0; end != text.npos; begin = end + 1) {
    end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

size_t margin_of(const std::string& line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// The last blank between words that leaves no more than `width` before it, else the first
// one; npos: there is none.
size_t place_to_break(const std::string& line, size_t width) {
  const size_t last = line.rfind(' ', width);
  const bool is_between = last != line.npos && last > margin_of(line);
  return is_between ? last : line.find(' ', std::max(width, margin_of(line)));
}

std::string wrapped_line(std::string line, size_t width, size_t indent) {
  std::string done;
  while (line.size() > width) {
    const size_t end = place_to_break(line, width);
    if (end == line.npos) break;
    const std::string rest = line.substr(end + 1);
    done += line.substr(0, end) + '\n';
    line = std::string(indent, ' ') + rest.substr(margin_of(rest));
  }
  return done + line;
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text) {
  return parse<int64_t>(text);
}

std::optional<double> parse_number(std::string_view text) {
  const auto value = parse<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<bool> parse_boolean(std::string_view text) {
  static const std::map<std::string_view, bool> words = {
      {"true", true},   {"yes", true}, {"on", true},   {"1", true},
      {"false", false}, {"no", false}, {"off", false}, {"0", false}};
  const auto found = words.find(text);
  return found == words.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int64_t> parse_duration(std::string_view text) {
  constexpr int64_t kLongest = 100000;  // of what stands first
  const size_t dash = text.find('-');
  const bool has_days = dash != text.npos;
  const auto days = parse_integer(has_days ? text.substr(0, dash) : "0");
  if (!days || *days < 0 || *days >= kLongest) return std::nullopt;
  std::vector<int64_t> parts;
  for (const std::string& part : split(has_days ? text.substr(dash + 1) : text, ':')) {
    const auto value = parse_integer(part);
    const int64_t end = !parts.empty() ? 60 : has_days ? 24 : kLongest;
    if (!value || *value < 0 || *value >= end || parts.size() == 3) return std::nullopt;
    parts.push_back(*value);
  }
  // Behind days stand hours first, else minutes unless there are three parts.
  if (!has_days && parts.size() < 3) parts.insert(parts.begin(), 0);
  parts.resize(3);
  const int64_t hours = *days * 24 + parts[0];
  if (hours >= kLongest) return std::nullopt;  // format_duration writes hours first
  return (hours * 60 + parts[1]) * 60 + parts[2];
}

std::optional<int64_t> parse_span(std::string_view text) {
  constexpr int64_t kMost = 1000000;  // of a unit, in all: format_span writes hours
  int64_t seconds = 0;
  while (!text.empty()) {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const auto count = parse_integer(text.substr(0, digits));
    text.remove_prefix(digits);
    const size_t letters = std::min(text.find_first_of("0123456789"), text.size());
    const auto unit = std::ranges::find(kTimes, text.substr(0, letters), &Unit::name);
    if (!count || *count >= kMost || unit == std::end(kTimes)) return std::nullopt;
    seconds += *count * unit->size;
    text.remove_prefix(letters);
  }
  const bool is_span = seconds > 0 && seconds < kMost * 3600;
  return is_span ? std::optional(seconds) : std::nullopt;
}

std::optional<int64_t> parse_size(std::string_view text) {
  constexpr double kLargest = 1e18;
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto count = parse_number(text.substr(0, digits));
  const std::string_view unit = text.substr(digits);
  const auto found = std::ranges::find(kSizes, unit, &Unit::name);
  if (!count || found == std::end(kSizes)) return std::nullopt;
  const double bytes = *count * static_cast<double>(found->size);
  return bytes < kLargest ? std::optional(static_cast<int64_t>(bytes)) : std::nullopt;
}

std::optional<int64_t> parse_told_size(std::string_view text) {
  constexpr int64_t kFewest = 1 << 20;
  const auto bytes = parse_size(text);
  const bool is_bare = parse_integer(text).has_value();
  return bytes && (!is_bare || *bytes == 0 || *bytes >= kFewest) ? bytes : std::nullopt;
}

std::optional<int64_t> parse_size_or_off(std::string_view text) {
  return text == "off" ? 0 : parse_told_size(text);
}

std::optional<int> parse_prefetch(std::string_view text) {
  constexpr int64_t kMost = 64;
  if (text == "auto") return 1;
  const auto units = parse_integer(text);
  if (!units || *units < 0 || *units > kMost) return std::nullopt;
  return static_cast<int>(*units);
}

std::optional<int> parse_shard_over(std::string_view text) {
  constexpr int64_t kMost = 99999;
  if (text == "all") return 0;
  if (text == "host") return kRanksOfHost;
  const auto ranks = parse_integer(text);
  if (!ranks || *ranks < 1 || *ranks > kMost) return std::nullopt;
  return static_cast<int>(*ranks);
}

std::optional<int64_t> parse_recompute(std::string_view text) {
  constexpr std::string_view kPrefix = "every:";
  constexpr int64_t kMost = 1 << 20;
  if (text == "unit") return 1;
  if (text == "none") return 0;
  if (!text.starts_with(kPrefix)) return std::nullopt;
  const auto every = parse_integer(text.substr(kPrefix.size()));
  return every && 1 <= *every && *every <= kMost ? every : std::nullopt;
}

std::optional<double> parse_fraction(std::string_view text) {
  const auto number = parse_number(text);
  return number && *number >= 0 && *number <= 1 ? number : std::nullopt;
}

bool is_date(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-dd";
  const bool fits = std::ranges::equal(text, kForm, [](char c, char form) {
    return form == '-' ? c == '-' : '0' <= c && c <= '9';
  });
  if (!fits) return false;
  const auto number = [&](size_t begin, size_t count) {
    return static_cast<int>(parse_integer(text.substr(begin, count)).value_or(0));
  };
  const std::chrono::year_month_day day{
      std::chrono::year(number(0, 4)),
      std::chrono::month(static_cast<unsigned>(number(5, 2))),
      std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  return day.ok();
}

std::optional<std::pair<std::string, int>> parse_delay(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == text.npos) return std::nullopt;
  const auto milliseconds = parse_integer(text.substr(equals + 1));
  const bool fits = milliseconds && *milliseconds >= 0 && *milliseconds <= 3'600'000;
  if (!fits) return std::nullopt;
  return std::pair(std::string(text.substr(0, equals)), static_cast<int>(*milliseconds));
}

std::string format_duration(int64_t seconds) {
  return fmt::format("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60,
                     seconds % 60);
}

std::string format_span(int64_t seconds) {
  std::string text;
  for (const auto& [name, length] : {Unit{"h", 3600}, Unit{"min", 60}, Unit{"s", 1}}) {
    if (seconds >= length) text += fmt::format("{}{}", seconds / length, name);
    seconds %= length;
  }
  return text.empty() ? "0" : text;
}

std::string format_size(int64_t bytes) {
  for (const auto& [name, size] :
       {Unit{"TiB", 1LL << 40}, Unit{"GiB", 1 << 30}, Unit{"MiB", 1 << 20},
        Unit{"KiB", 1 << 10}, Unit{"B", 1}}) {
    if (bytes >= size && bytes % size == 0)
      return fmt::format("{}{}", bytes / size, name);
  }
  return "0";
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

std::string alternatives(const std::vector<std::string>& words) {
  std::string text = fmt::format("{}", fmt::join(words, ", "));
  if (words.size() > 1) text.replace(text.size() - words.back().size() - 2, 2, " or ");
  return text;
}

std::string wrapped(const std::string& text, size_t width, std::optional<size_t> indent) {
  std::vector<std::string> lines = split_lines(text);
  for (std::string& line : lines)
    line = wrapped_line(line, width, indent.value_or(margin_of(line)));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

bool is_utf8(std::string_view text) {
  while (const size_t bytes = first_character(text).bytes) text.remove_prefix(bytes);
  return text.empty();
}

}  // namespace zero::launcher
