#include "launcher/data/listed_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "launcher/data/mapped_file.h"

namespace zero::data {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string first_and_others(const std::string& first, int64_t count) {
  return count == 1 ? first
                    : fmt::format("{} and {} more", first, fmt::group_digits(count - 1));
}

bool is_hidden(const std::string& path) {
  return fs::path(path).filename().string().starts_with('.');
}

void throw_unreadable(const std::string& path, const std::error_code& error) {
  const bool is_missing = error == std::errc::no_such_file_or_directory;
  const bool is_address = path.find("://") != path.npos;
  if (is_missing && (is_address || path.find(',') != path.npos))
    throw DataError("the data path does not exist", path,
                    is_address ? "download it first, and name the file"
                               : "paths stand with blanks between them: a b");
  throw DataError(is_missing ? "the data path does not exist"
                             : "the data path cannot be read: " + error.message(),
                  path, "check this path, and the permissions of every folder above it");
}

std::vector<FolderEntry> entries_of(const std::string& folder) {
  std::vector<FolderEntry> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const fs::file_status status = entry->symlink_status(error);
    if (is_hidden(name) || !(fs::is_directory(status) || fs::is_regular_file(status)))
      continue;
    entries.push_back({name, fs::is_directory(status)});
  }
  if (error) throw_unreadable(folder, error);
  std::ranges::sort(entries, {}, &FolderEntry::name);
  return entries;
}

std::vector<ListedFile> list_folder(const std::string& folder) {
  std::vector<ListedFile> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  if (error) throw_unreadable(folder, error);
  while (entry != fs::recursive_directory_iterator()) {
    const fs::path path = entry->path();
    if (is_hidden(path.string())) {
      entry.disable_recursion_pending();
    } else if (fs::is_regular_file(entry->symlink_status(error))) {
      files.push_back({path.string(), path.lexically_relative(folder).string(), true});
    }
    if (!error) entry.increment(error);
    if (error) throw_unreadable(path.string(), error);
  }
  std::ranges::sort(files, {}, &ListedFile::name);
  return files;
}

}  // namespace zero::data
