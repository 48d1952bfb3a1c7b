#pragma once
#include <string>

namespace zero {

// Does `text` match the glob (* any text, ? any one character)?
bool glob_match(const std::string& glob, const std::string& text);

// Throw Error(kUsage) unless a name can be a key of a checkpoint: valid UTF-8 of 1 to
// 1024 bytes without control characters, '/' or empty components.
void check_fqn(const std::string& fqn);

// The name with control and non-ASCII bytes escaped, safe to print on a terminal.
std::string printable(const std::string& name);

}  // namespace zero
