#pragma once
#include <string>
#include <vector>

namespace zero::data {

struct ListedFile {
  std::string path;  // opens the file
  std::string name;  // the path below the listed folder, or the bare file name: moves
                     // with the data
  bool from_folder = false;  // found in a folder, not asked for by name
};

// List the files under `paths`, in the order of the paths; a folder gives all its files
// at any depth, sorted bytewise by name.
//
// In a folder, names that start with '.' are left out, and so is everything that is not a
// regular file; symbolic links are not followed, so the list never leaves the folder. A
// path given by the caller may be either. Throws DataError for a missing or unreadable
// path, a folder without files, and an empty list of paths.
std::vector<ListedFile> list_files(const std::vector<std::string>& paths);

}  // namespace zero::data
