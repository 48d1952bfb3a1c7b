#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/h5_source.h"

namespace zero::checkpoint {

// Names that match the first become the second, as renamed() of base/names.h does it.
using Rename = std::pair<std::string, std::string>;

// Which dataset has which name.
struct H5Names {
  std::map<std::string, std::string> paths;  // by name
  std::vector<std::string> ignored;  // paths of what only a run that goes on needs
  std::vector<size_t> unused;        // renames that no name was left for
};

// A dataset's name is its path, with dots for '/'. Of a file with a group "params", as
// ours are, that and "buffers" do not belong to it, and other groups of ours are ignored.
// The first rename that matches counts. Throws CheckpointError for two of one name.
H5Names name_datasets(const H5Source& source, const std::vector<Rename>& renames);

}  // namespace zero::checkpoint
