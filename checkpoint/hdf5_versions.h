#pragma once

#include <string>
#include <utility>

namespace zero::checkpoint {

// Of the headers that this was built with, and of the library that is loaded.
std::pair<std::string, std::string> hdf5_versions();

}  // namespace zero::checkpoint
