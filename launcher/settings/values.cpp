#include "launcher/settings/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace zero::launcher {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

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

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Bytes of the UTF-8 character that `lead` begins; 0 when it begins none.
int utf8_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  return lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
}

// Longer forms of shorter characters, surrogates, and what lies beyond U+10FFFF.
bool is_forbidden(unsigned char lead, unsigned char second) {
  return (lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
         (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f);
}

struct Unit {
  std::string_view name;
  int64_t seconds;
};
constexpr Unit kUnits[] = {{"s", 1},    {"sec", 1},  {"m", 60},
                           {"min", 60}, {"h", 3600}, {"d", 86400}};

struct Size {
  std::string_view name;
  int64_t bytes;
};
constexpr Size kSizes[] = {{"", 1},
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

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text) {
  return parse<int64_t>(text);
}

std::optional<double> parse_number(std::string_view text) {
  const auto value = parse<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<bool> parse_boolean(std::string_view text) {
  for (std::string_view yes : {"true", "yes", "on", "1"}) {
    if (text == yes) return true;
  }
  for (std::string_view no : {"false", "no", "off", "0"}) {
    if (text == no) return false;
  }
  return std::nullopt;
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
    const auto unit = std::ranges::find(kUnits, text.substr(0, letters), &Unit::name);
    if (!count || *count >= kMost || unit == std::end(kUnits)) return std::nullopt;
    seconds += *count * unit->seconds;
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
  const auto found = std::ranges::find(kSizes, unit, &Size::name);
  if (!count || found == std::end(kSizes)) return std::nullopt;
  const double bytes = *count * static_cast<double>(found->bytes);
  return bytes < kLargest ? std::optional(static_cast<int64_t>(bytes)) : std::nullopt;
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
       {Size{"TiB", 1LL << 40}, Size{"GiB", 1 << 30}, Size{"MiB", 1 << 20}}) {
    if (bytes >= size && bytes % size == 0)
      return fmt::format("{}{}", bytes / size, name);
  }
  return fmt::format("{}", bytes);
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
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const int length = utf8_length(lead);
    if (length == 0 || i + length > text.size()) return false;
    for (int k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    if (length > 1 && is_forbidden(lead, static_cast<unsigned char>(text[i + 1])))
      return false;
    i += length;
  }
  return true;
}

}  // namespace zero::launcher
