#include "base/text.h"

#include <cstdint>
#include <cstdio>

#include "base/names.h"

namespace zero {

std::string printable(std::string_view text, std::string_view kept, size_t most) {
  std::string safe;
  while (!text.empty() && safe.size() < most) {
    const Character next = first_character(text);
    if (next.bytes == 0 || (next.is_control && kept.find(text[0]) == kept.npos)) {
      char escaped[5];
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<uint8_t>(text[0]));
      safe += escaped;
      text.remove_prefix(1);
    } else {
      safe += text.substr(0, next.bytes);
      text.remove_prefix(next.bytes);
    }
  }
  return text.empty() ? safe : safe + "...";
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

}  // namespace zero
