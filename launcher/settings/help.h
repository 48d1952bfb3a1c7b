#pragma once
#include <string>

namespace zero::launcher {

// The page of `zero_launch train --help`: every setting by group, with default and
// meaning.
std::string settings_help(const std::string& verb);

}  // namespace zero::launcher
