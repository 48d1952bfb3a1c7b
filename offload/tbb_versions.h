#pragma once

#include <string>
#include <utility>

namespace zero {

// Of the headers that this was built with, and of the library that is loaded.
std::pair<std::string, std::string> tbb_versions();

}  // namespace zero
