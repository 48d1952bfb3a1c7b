#include "base/text.h"

#include <cstdint>
#include <cstdio>

#include "base/names.h"

namespace zero {
namespace {

constexpr size_t kPrintedBytes = 2048;

}  // namespace

std::string printable(std::string_view text) {
  std::string safe;
  while (!text.empty() && safe.size() < kPrintedBytes) {
    const Character next = first_character(text);
    if (next.bytes == 0 || next.is_control) {
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

}  // namespace zero
