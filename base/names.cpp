#include "base/names.h"

#include <algorithm>
#include <cstdint>

#include "base/text.h"

namespace zero {

std::string flaw_of_name(std::string_view name) {
  if (name.empty()) return "a name is empty";
  if (name.size() > kMaxNameBytes)
    return text_of("a name has ", name.size(), " bytes, the most is ", kMaxNameBytes);
  if (name == "." || name == "..") return "this name means a folder";
  while (!name.empty()) {
    const Character next = first_character(name);
    if (next.bytes == 0) return "the name is not valid UTF-8";
    if (next.is_control) return "the name has a control character";
    if (name[0] == '/') return "the name has a '/', which separates HDF5 groups";
    name.remove_prefix(next.bytes);
  }
  return "";
}

Character first_character(std::string_view text) {
  if (text.empty()) return {};
  const auto first = static_cast<uint8_t>(text[0]);
  const size_t bytes = first < 0x80   ? 1
                       : first < 0xC2 ? 0
                       : first < 0xE0 ? 2
                       : first < 0xF0 ? 3
                       : first < 0xF5 ? 4
                                      : 0;
  if (bytes == 0) return {};
  uint32_t code = bytes == 1 ? first : first & (0x7Fu >> bytes);
  for (const char next : text.substr(1, bytes - 1)) {
    if ((static_cast<uint8_t>(next) & 0xC0) != 0x80) return {};
    code = code << 6 | (static_cast<uint8_t>(next) & 0x3Fu);
  }
  if (text.size() < bytes) return {.is_cut = true};
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};  // shorter forms exist
  const bool is_surrogate = code >= 0xD800 && code < 0xE000;
  if (code < kSmallest[bytes] || code > 0x10FFFF || is_surrogate) return {};
  return {bytes, code < 0x20 || (code >= 0x7F && code < 0xA0)};
}

// After a mismatch the last * takes one byte more.
bool glob_match(std::string_view pattern, std::string_view name,
                std::vector<std::string_view>* stars) {
  size_t p = 0, n = 0, star = std::string_view::npos, begin = 0, taken = 0;
  const auto keep_star = [&] {
    if (stars && star != std::string_view::npos)
      stars->push_back(name.substr(begin, taken - begin));
  };
  if (stars) stars->clear();
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      keep_star();
      star = p++;
      begin = taken = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  if (pattern.find_first_not_of('*', p) != std::string_view::npos) return false;
  keep_star();
  if (stars) stars->resize(std::ranges::count(pattern, '*'));  // the last ones are empty
  return true;
}

std::optional<std::string> renamed(std::string_view pattern, std::string_view name,
                                   std::string_view to) {
  std::vector<std::string_view> stars;
  if (!glob_match(pattern, name, &stars)) return std::nullopt;
  std::string result;
  for (size_t i = 0, star = 0; i < to.size(); ++i) {
    if (to[i] == '*' && star < stars.size())
      result += stars[star++];
    else
      result += to[i];
  }
  return result;
}

bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::ranges::any_of(
      patterns, [&](const std::string& pattern) { return glob_match(pattern, name); });
}

}  // namespace zero
