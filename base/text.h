#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace zero {

// One text of several parts: text_of("has ", 12, " bytes").
template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return std::move(text).str();
}

// Make a name of unknown origin safe to print: control characters and bytes that are not
// UTF-8 become \xNN, but for those of `kept`; a text of more than `most` bytes is cut.
std::string printable(std::string_view text, std::string_view kept = "",
                      size_t most = 2048);

// Without blanks and ends of lines around it.
std::string_view trimmed(std::string_view text);

// Its letters A to Z as a to z.
std::string to_lower(std::string_view text);

}  // namespace zero
