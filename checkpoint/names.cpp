#include "checkpoint/names.h"

#include <cstdint>

#include "checkpoint/error.h"
#include "checkpoint/format.h"

namespace zero::checkpoint {
namespace {

uint32_t code_point(std::string_view character) {
  const auto first = static_cast<uint8_t>(character[0]);
  uint32_t code = character.size() == 1 ? first : first & (0x7Fu >> character.size());
  for (const char next : character.substr(1))
    code = code << 6 | (static_cast<uint8_t>(next) & 0x3Fu);
  return code;
}

// What is wrong with the name; empty: nothing.
std::string flaw(std::string_view name) {
  if (name.empty()) return "a name is empty";
  if (name.size() > kMaxNameBytes)
    return text_of("a name has ", name.size(), " bytes, the most is ", kMaxNameBytes);
  if (name == "." || name == "..") return "this name means a folder";
  for (size_t length; !name.empty(); name.remove_prefix(length)) {
    length = utf8_length(name);
    if (length == 0) return "the name is not valid UTF-8";
    if (is_control(name.substr(0, length))) return "the name has a control character";
    if (name[0] == '/') return "the name has a '/', which separates HDF5 groups";
  }
  return "";
}

}  // namespace

size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<uint8_t>(text[0]);
  const size_t length = first < 0x80   ? 1
                        : first < 0xC2 ? 0
                        : first < 0xE0 ? 2
                        : first < 0xF0 ? 3
                        : first < 0xF5 ? 4
                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  for (const char next : text.substr(1, length - 1)) {
    if ((static_cast<uint8_t>(next) & 0xC0) != 0x80) return 0;
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};  // shorter forms exist
  const uint32_t code = code_point(text.substr(0, length));
  const bool is_surrogate = code >= 0xD800 && code < 0xE000;
  return code < kSmallest[length] || code > 0x10FFFF || is_surrogate ? 0 : length;
}

// After a mismatch the last * takes one byte more.
bool glob_match(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool is_control(std::string_view character) {
  const uint32_t code = code_point(character);
  return code < 0x20 || (code >= 0x7F && code < 0xA0);
}

void check_name(std::string_view name, const std::string& file) {
  const std::string problem = flaw(name);
  if (!problem.empty()) throw CheckpointError(file, std::string(name), problem);
}

}  // namespace zero::checkpoint
