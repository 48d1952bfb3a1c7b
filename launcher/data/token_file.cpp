#include "launcher/data/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <utility>

namespace zero::data {
namespace {

constexpr int64_t kBlock = 4096;  // tokens compared at once; divides a chunk

template <typename T>
T load(const unsigned char* bytes, int64_t i) {
  T value;
  std::memcpy(&value, bytes + i * int64_t{sizeof(T)}, sizeof(T));
  return value;
}

template <typename T>
void widen(const unsigned char* bytes, int64_t count, int64_t* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = load<T>(bytes, i);
}

// True if one of kBlock tokens is above `last_id`. Without a branch and of fixed length,
// so that it vectorises.
template <typename T>
bool block_exceeds(const unsigned char* bytes, T last_id) {
  T largest = 0;
  for (int64_t i = 0; i < kBlock; ++i) largest = std::max(largest, load<T>(bytes, i));
  return largest > last_id;
}

// The first of `count` tokens above `last_id`, or -1.
template <typename T>
int64_t find_exceeding(const unsigned char* bytes, int64_t count, T last_id) {
  int64_t i = 0;
  while (i + kBlock <= count &&
         !block_exceeds<T>(bytes + i * int64_t{sizeof(T)}, last_id)) {
    i += kBlock;
  }
  for (; i < count; ++i) {
    if (load<T>(bytes, i) > last_id) return i;
  }
  return -1;
}

// `least`: the vocabulary that the whole file needs at least, as far as that is known.
[[noreturn]] void throw_bad_id(const MappedFile& file, int64_t offset, int64_t id,
                               int64_t vocab_size, int64_t least) {
  const char* note = id == TokenFile::kEndOfText && offset == file.size_bytes()
                         ? " (end of text, added after every text)"
                         : "";
  throw DataError(fmt::format("token id {}{} does not fit the model's vocabulary of {}",
                              id, note, vocab_size),
                  at_byte(file.path(), offset),
                  fmt::format("use data of the model's tokenizer; or, for a new model, "
                              "set --vocab to at least {}",
                              std::max(id + 1, least)));
}

template <typename T>
void check_ids_as(const MappedFile& file, int64_t begin, int64_t vocab_size,
                  int64_t least, const OnRead& on_read) {
  if (vocab_size > int64_t{std::numeric_limits<T>::max()}) return;
  const T last_id = static_cast<T>(vocab_size - 1);
  for_each_chunk(file, begin, on_read,
                 [&](const unsigned char* bytes, int64_t offset, int64_t num_bytes) {
                   const int64_t i =
                       find_exceeding<T>(bytes, num_bytes / int64_t{sizeof(T)}, last_id);
                   if (i < 0) return;
                   throw_bad_id(file, offset + i * int64_t{sizeof(T)}, load<T>(bytes, i),
                                vocab_size, least);
                 });
}

}  // namespace

TokenFile::TokenFile(const std::string& path, std::string name, bool keep_mapped,
                     Texts texts)
    : file_(path, keep_mapped),
      layout_(texts == Texts::kAny ? text_layout(file_) : detect_layout(file_)),
      name_(std::move(name)) {
  if (!is_text() || texts == Texts::kAny) return;
  if (texts == Texts::kPlainOrGzip && is_packed(file_)) return;
  require_text(file_);
}

std::optional<TextKind> TokenFile::odd_kind() const {
  return is_text() ? kind_of_text(head_of_text(file_)) : std::nullopt;
}

void TokenFile::read(int64_t begin, int64_t count, int64_t* out) const {
  assert(begin >= 0 && count >= 0 && begin <= num_tokens() - count);
  const int64_t num_stored = std::clamp<int64_t>(layout_.num_tokens - begin, 0, count);
  if (num_stored < count)
    out[count - 1] = kEndOfText;  // the one token that is not in the file
  if (num_stored == 0) return;
  const auto bytes = file_.view(layout_.data_begin + begin * layout_.bytes_per_token);
  if (layout_.bytes_per_token == 1) widen<uint8_t>(bytes.get(), num_stored, out);
  if (layout_.bytes_per_token == 2) widen<uint16_t>(bytes.get(), num_stored, out);
  if (layout_.bytes_per_token == 4) widen<uint32_t>(bytes.get(), num_stored, out);
}

void TokenFile::check_ids(int64_t vocab_size, const OnRead& on_read) const {
  assert(vocab_size >= 1);
  const int64_t begin = layout_.data_begin;
  if (layout_.bytes_per_token == 1)
    check_ids_as<uint8_t>(file_, begin, vocab_size, kTextVocab, on_read);
  if (layout_.bytes_per_token == 2)
    check_ids_as<uint16_t>(file_, begin, vocab_size, 0, on_read);
  if (layout_.bytes_per_token == 4)
    check_ids_as<uint32_t>(file_, begin, vocab_size, 0, on_read);
  if (is_text() && vocab_size <= kEndOfText) {
    throw_bad_id(file_, file_.size_bytes(), kEndOfText, vocab_size, kTextVocab);
  }
}

uint64_t TokenFile::content_hash(uint64_t seed, const OnRead& on_read) const {
  return hash_file(file_, name_, seed, on_read);
}

}  // namespace zero::data
