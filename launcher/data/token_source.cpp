#include "launcher/data/token_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <filesystem>
#include <map>
#include <system_error>

#include "launcher/data/listed_files.h"
#include "launcher/data/mapped_file.h"
#include "launcher/data/sampler.h"

namespace zero::data {
namespace {

namespace fs = std::filesystem;

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

// List the files under `paths`, in the order of the paths; a folder gives all its files
// at any depth, sorted bytewise by name.
//
// In a folder, names that start with '.' are left out, and so is everything that is not a
// regular file; symbolic links are not followed, so the list never leaves the folder. A
// path given by the caller may be either. Throws DataError for a missing or unreadable
// path, a folder without files, and an empty list of paths.
std::vector<ListedFile> list_files(const std::vector<std::string>& paths) {
  if (paths.empty()) throw DataError("no data is given", "--data", "give --data PATH...");
  std::vector<ListedFile> files;
  for (const auto& path : paths) {
    auto found = list_path(path);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

constexpr size_t kMaxKeptMappings = 1024;

void check_not_empty(const TokenFile& file) {
  if (file.layout().num_tokens > 0) return;
  throw DataError("the data file is empty", at_byte(file.path(), 0),
                  "name another file, or copy this one again");
}

void check_same_kind(const TokenFile& first, const TokenFile& file) {
  if (file.layout().kind == first.layout().kind) return;
  throw DataError(fmt::format("the data mixes two kinds: {} is {}, {} is {}",
                              first.path(), kind_name(first.layout().kind), file.path(),
                              kind_name(file.layout().kind)),
                  at_byte(file.path(), 0), "name files of one kind");
}

}  // namespace

TokenSource::TokenSource(const std::vector<std::string>& paths, Texts texts) {
  const auto listed = list_files(paths);
  const bool keep_mapped = listed.size() <= kMaxKeptMappings;
  for (const auto& entry : listed) {
    TokenFile file(entry.path, entry.name, keep_mapped, texts);
    const bool is_empty_text =
        file.layout().kind == TokenKind::kText && file.layout().num_tokens == 0;
    if (entry.from_folder && is_empty_text) continue;
    check_not_empty(file);
    check_same_kind(files_.empty() ? file : files_.front(), file);
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + file.num_tokens());
    files_.push_back(std::move(file));
  }
  if (files_.empty()) {
    throw DataError("all files of the folder are empty", paths.front(),
                    "name another folder");
  }
}

std::vector<std::string> TokenSource::paths() const {
  std::vector<std::string> paths;
  for (const auto& file : files_) paths.push_back(file.path());
  return paths;
}

bool TokenSource::is_text() const {
  return files_.front().layout().kind == TokenKind::kText;
}

int64_t TokenSource::vocab_size() const {
  int64_t largest = 0;
  for (const auto& file : files_) largest = std::max(largest, file.layout().vocab_size);
  return largest;
}

std::string TokenSource::describe() const {
  return fmt::format("{}, {} file{}, {} tokens", kind_name(files_.front().layout().kind),
                     fmt::group_digits(num_files()), num_files() == 1 ? "" : "s",
                     fmt::group_digits(num_tokens()));
}

std::string TokenSource::where() const {
  return first_and_others(files_.front().path(), num_files());
}

std::vector<std::string> TokenSource::warnings() const {
  struct Found {
    std::string path, cure;
    int64_t count = 0;
  };
  std::map<std::string, Found> kinds;
  for (const TokenFile& file : files_) {
    const auto kind = file.odd_kind();
    if (!kind) continue;
    Found& found = kinds[kind->name];
    if (found.count++ == 0) found = {file.path(), kind->cure, 1};
  }
  std::vector<std::string> lines;
  for (const auto& [name, found] : kinds)
    lines.push_back(fmt::format(
        "{}{} looks like {}; its bytes are learned as they are. What to do instead: {}. "
        "--bytes, if it is meant so",
        found.path,
        found.count == 1
            ? ""
            : fmt::format(" (and {} more)", fmt::group_digits(found.count - 1)),
        name, found.cure));
  return lines;
}

void TokenSource::read(int64_t begin, int64_t count, int64_t* out) const {
  assert(begin >= 0 && count >= 0 && begin <= num_tokens() - count);
  auto i = static_cast<size_t>(std::ranges::upper_bound(ends_, begin) - ends_.begin());
  for (; count > 0; ++i) {
    const int64_t begin_in_file = begin - (ends_[i] - files_[i].num_tokens());
    const int64_t num_here = std::min(count, ends_[i] - begin);
    files_[i].read(begin_in_file, num_here, out);
    begin += num_here;
    count -= num_here;
    out += num_here;
  }
}

void TokenSource::check_ids(int64_t vocab_size, const OnRead& on_read) const {
  for (const auto& file : files_) file.check_ids(vocab_size, on_read);
}

int64_t TokenSource::num_bytes() const {
  int64_t bytes = 0;
  for (const auto& file : files_) bytes += file.size_bytes();
  return bytes;
}

uint64_t TokenSource::content_hash(const OnRead& on_read) const {
  uint64_t hash = 0;
  for (const auto& file : files_) hash = file.content_hash(hash, on_read);
  return hash;
}

int64_t TokenSource::num_samples(const SampleShape& shape) const {
  return count_samples(*this, shape.seq_len);
}

std::unique_ptr<Samples> TokenSource::samples(const SampleShape& shape,
                                              const SampleOrder& order) const {
  return std::make_unique<Sampler>(*this, shape.seq_len, order);
}

}  // namespace zero::data
