#include "launcher/data/token_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "launcher/data/error.h"
#include "launcher/data/file_list.h"

namespace zero::data {
namespace {

constexpr size_t kMaxKeptMappings = 1024;

// 1234567 -> "1,234,567"
std::string with_commas(int64_t number) {
  std::string text = std::to_string(number);
  for (int64_t i = std::ssize(text) - 3; i > 0; i -= 3)
    text.insert(static_cast<size_t>(i), 1, ',');
  return text;
}

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
                  at_byte(file.path(), 0), "give --data the files of one kind by name");
}

}  // namespace

TokenSource::TokenSource(const std::vector<std::string>& paths) {
  const auto listed = list_files(paths);
  const bool keep_mapped = listed.size() <= kMaxKeptMappings;
  for (const auto& entry : listed) {
    TokenFile file(entry.path, entry.name, keep_mapped);
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

int64_t TokenSource::vocab_size() const {
  int64_t largest = 0;
  for (const auto& file : files_) largest = std::max(largest, file.layout().vocab_size);
  return largest;
}

std::string TokenSource::describe() const {
  return fmt::format("{}, {} file{}, {} tokens", kind_name(files_.front().layout().kind),
                     with_commas(num_files()), num_files() == 1 ? "" : "s",
                     with_commas(num_tokens()));
}

std::string TokenSource::where() const {
  const std::string& first = files_.front().path();
  if (num_files() == 1) return first;
  return fmt::format("{} and {} more", first, with_commas(num_files() - 1));
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

void TokenSource::check_unchanged() const {
  for (const auto& file : files_) file.check_unchanged();
}

uint64_t TokenSource::content_hash(const OnRead& on_read) const {
  uint64_t hash = 0;
  for (const auto& file : files_) hash = file.content_hash(hash, on_read);
  return hash;
}

}  // namespace zero::data
