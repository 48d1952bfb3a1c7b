#include "engine/plan/names.h"

#include <fnmatch.h>

#include <cstdint>
#include <cstdio>

#include "engine/errors.h"

namespace zero {
namespace {

// Length of the UTF-8 sequence that starts at `i`, 0 if it is not valid.
size_t utf8_length(const std::string& text, size_t i) {
  const auto byte = [&](size_t k) {
    return k < text.size() ? static_cast<uint8_t>(text[k]) : uint8_t{0};
  };
  const auto follows = [&](size_t k) { return (byte(k) & 0xc0) == 0x80; };
  const uint8_t first = byte(i);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(i + 1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && byte(i + 1) < 0xa0,
               surrogate = first == 0xed && byte(i + 1) > 0x9f;
    return follows(i + 1) && follows(i + 2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool overlong = first == 0xf0 && byte(i + 1) < 0x90,
               beyond = first == 0xf4 && byte(i + 1) > 0x8f;
    return follows(i + 1) && follows(i + 2) && follows(i + 3) && !overlong && !beyond ? 4
                                                                                      : 0;
  }
  return 0;
}

std::string fault_of(const std::string& fqn) {
  if (fqn.empty()) return "a parameter has an empty name";
  if (fqn.size() > 1024) return "a parameter's name is longer than 1024 bytes";
  if (fqn == "." || fqn.find("..") != std::string::npos || fqn.front() == '.' ||
      fqn.back() == '.') {
    return "a parameter's name has an empty component";
  }
  for (size_t i = 0; i < fqn.size();) {
    if (static_cast<uint8_t>(fqn[i]) < 0x20 || fqn[i] == 0x7f)
      return "a parameter's name has a control character";
    if (fqn[i] == '/') return "a parameter's name has a '/'";
    const size_t length = utf8_length(fqn, i);
    if (length == 0) return "a parameter's name is not valid UTF-8";
    i += length;
  }
  return "";
}

}  // namespace

bool glob_match(const std::string& glob, const std::string& text) {
  return fnmatch(glob.c_str(), text.c_str(), FNM_NOESCAPE) == 0;
}

void check_fqn(const std::string& fqn) {
  const std::string fault = fault_of(fqn);
  if (fault.empty()) return;
  throw Error(ExitCode::kUsage, fault,
              printable(fqn.substr(0, 64)) + (fqn.size() > 64 ? "..." : ""),
              "register it under a name that can be a key of a checkpoint");
}

std::string printable(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
      continue;
    }
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
    out += escaped;
  }
  return out;
}

}  // namespace zero
