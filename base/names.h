#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

constexpr size_t kMaxNameBytes = 1024;

// Why a name cannot be stored as it is; empty: it can.
//
// A tensor's fully qualified name becomes an HDF5 link and a JSON string, unescaped. So
// it is 1 to kMaxNameBytes bytes of valid UTF-8 without '/' and control characters, and
// neither "." nor ".."; dots inside are what names are made of.
std::string flaw_of_name(std::string_view name);

// Does the name match the pattern? * stands for any text, ? for any one byte, all else
// for itself: brackets are legal in names.
// `stars`: gets what each * stands for, the first ones as little as they can.
bool glob_match(std::string_view pattern, std::string_view name,
                std::vector<std::string_view>* stars = nullptr);
bool matches_any(const std::vector<std::string>& patterns, std::string_view name);

// What `to` calls a name that the pattern matches: each * there is what the pattern's *
// in the same place stands for. None: it does not match.
std::optional<std::string> renamed(std::string_view pattern, std::string_view name,
                                   std::string_view to);

// The UTF-8 character that a text begins with.
struct Character {
  size_t bytes = 0;         // 0: none that is valid
  bool is_control = false;  // of C0 or C1, or DEL
  bool is_cut = false;      // the text may be the beginning of one
};
Character first_character(std::string_view text);

}  // namespace zero
