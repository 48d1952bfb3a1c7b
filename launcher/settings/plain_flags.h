#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "launcher/settings/command_line.h"

namespace zero::launcher {

// A flag that is no setting.
template <class T>
struct PlainFlag {
  std::string name;
  T CommandLine::*member;
  std::vector<std::string> verbs = {};    // that take it; none: all
  std::string allowed = "", advice = "";  // of its value; for other verbs

  bool is_of(const std::string& verb) const {
    return verbs.empty() || std::ranges::find(verbs, verb) != verbs.end();
  }
};

extern const std::vector<PlainFlag<std::string>> kFlagsWithValue;
extern const std::vector<PlainFlag<std::vector<std::string>>> kListFlags;
extern const std::vector<PlainFlag<bool>> kSwitches;

// Null: there is none.
template <class T>
const PlainFlag<T>* find_flag(const std::vector<PlainFlag<T>>& flags,
                              const std::string& name) {
  const auto found = std::ranges::find(flags, name, &PlainFlag<T>::name);
  return found == flags.end() ? nullptr : &*found;
}

// Folders that stand alone: two to be compared, or what --from names as well.
size_t num_folders_of(const std::string& verb);

// What is wrong with flags that are no settings: those of other verbs that are given, and
// folders that are missing where a verb needs them.
Problems check_flags(const CommandLine& line, const std::string& verb);

// The flags of a verb that are no settings.
std::vector<std::string> plain_flags_of(const std::string& verb);

}  // namespace zero::launcher
