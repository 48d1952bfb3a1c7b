#pragma once
#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

namespace zero::data {

struct ListedFile {
  std::string path;  // opens the file
  std::string name;  // the path below the listed folder, or the bare file name: moves
                     // with the data
  bool from_folder = false;  // found in a folder, not asked for by name
};

// Throws DataError for a path of data that the system refuses, with a cure.
[[noreturn]] void throw_unreadable(const std::string& path, const std::error_code& error);

// "FIRST and 1,234 more": so many paths in all.
std::string first_and_others(const std::string& first, int64_t count);

// Does the name begin with a dot?
bool is_hidden(const std::string& path);

// What lies in a folder itself.
struct FolderEntry {
  std::string name;
  bool is_folder = false;  // or a regular file
};

// The files and folders in a folder, sorted bytewise by name. Hidden names, symbolic
// links and all else are left out. Throws DataError for what cannot be read.
std::vector<FolderEntry> entries_of(const std::string& folder);

// The regular files in a folder, at any depth, sorted bytewise by name. Hidden names are
// left out; symbolic links are not followed. Throws DataError for what cannot be read.
std::vector<ListedFile> list_folder(const std::string& folder);

}  // namespace zero::data
