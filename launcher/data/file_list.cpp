#include "launcher/data/file_list.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "launcher/data/error.h"

namespace zero::data {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_unreadable(const std::string& path,
                                   const std::error_code& error) {
  const bool is_missing = error == std::errc::no_such_file_or_directory;
  throw DataError(is_missing ? "the data path does not exist"
                             : "the data path cannot be read: " + error.message(),
                  path, "check --data and the permissions of every folder above it");
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::vector<ListedFile> list_folder(const std::string& folder) {
  std::vector<ListedFile> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  if (error) throw_unreadable(folder, error);
  while (entry != fs::recursive_directory_iterator()) {
    const fs::path path = entry->path();
    if (is_hidden(path)) {
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

std::vector<ListedFile> list_path(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error) throw_unreadable(path, error);
  if (fs::is_regular_file(status)) return {{path, fs::path(path).filename().string()}};
  if (!fs::is_directory(status)) {
    throw DataError(
        "the data path is neither a file nor a folder", path,
        "pipes and devices have no random access: write the tokens to a file");
  }
  auto files = list_folder(path);
  if (files.empty()) {
    throw DataError(
        "the folder holds no files", path,
        "name another folder; hidden names and symbolic links inside it do not count");
  }
  return files;
}

}  // namespace

std::vector<ListedFile> list_files(const std::vector<std::string>& paths) {
  if (paths.empty()) throw DataError("no data is given", "--data", "give --data PATH...");
  std::vector<ListedFile> files;
  for (const auto& path : paths) {
    auto found = list_path(path);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace zero::data
