#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace zero::checkpoint {

// Refuse a name that cannot be stored as it is.
//
// A tensor's fully qualified name becomes an HDF5 link and a JSON string, unescaped. So
// it is 1 to 1024 bytes of valid UTF-8 without '/' and control characters, and neither
// "." nor ".."; dots inside are what names are made of. Throws CheckpointError with the
// name escaped for a terminal; `file` says where it came from and may be empty.
void check_name(std::string_view name, const std::string& file = {});

// Does the name match the pattern? * stands for any text, ? for any one byte, all else
// for itself: brackets are legal in names.
bool glob_match(std::string_view pattern, std::string_view name);

// Number of bytes of the valid UTF-8 character that `text` begins with; 0: none.
size_t utf8_length(std::string_view text);

// Is this one UTF-8 character a C0 or C1 control character or DEL?
bool is_control(std::string_view character);

}  // namespace zero::checkpoint
