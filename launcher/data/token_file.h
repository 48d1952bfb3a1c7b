#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "launcher/data/file_chunks.h"
#include "launcher/data/mapped_file.h"
#include "launcher/data/source.h"
#include "launcher/data/text_kind.h"
#include "launcher/data/token_layout.h"

namespace zero::data {

// What a file may be that is of no kind of tokens.
enum class Texts {
  kPlain,        // text
  kPlainOrGzip,  // or FILE.gz, which somebody unpacks
  kAny,          // whatever it is
};

// One file of tokens. A text ends in one more token than it has bytes: kEndOfText.
//
// const members may be called from several threads.
class TokenFile {
 public:
  static constexpr int64_t kEndOfText = 256;
  static constexpr int64_t kTextVocab = kEndOfText + 1;

  // `name` identifies the file in content hashes. Throws DataError as detect_layout and
  // MappedFile do, and for other texts as require_text.
  TokenFile(const std::string& path, std::string name, bool keep_mapped, Texts texts);

  const std::string& path() const { return file_.path(); }
  const TokenLayout& layout() const { return layout_; }
  int64_t size_bytes() const { return file_.size_bytes(); }
  int64_t num_tokens() const { return layout_.num_tokens + (is_text() ? 1 : 0); }
  // Of a text that looks as if something else were meant to be learned.
  std::optional<TextKind> odd_kind() const;

  // Copy tokens [begin, begin + count) to `out`. Throws DataError when the file changed.
  void read(int64_t begin, int64_t count, int64_t* out) const;

  // Throws DataError with byte offset and id of the first token whose id is not below
  // `vocab_size`. Reads the whole file, unless its integers are too narrow to hold such
  // an id.
  void check_ids(int64_t vocab_size, const OnRead& on_read = {}) const;

  // XXH3 over name, size and contents, continuing from `seed`. Reads the whole file.
  uint64_t content_hash(uint64_t seed, const OnRead& on_read = {}) const;

 private:
  bool is_text() const { return layout_.kind == TokenKind::kText; }

  // Constant after construction.
  MappedFile file_;
  TokenLayout layout_;
  std::string name_;
};

}  // namespace zero::data
