#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/data/token_file.h"

namespace zero::data {

// One long row of tokens out of files and folders, in the order given: what --data
// PATH... names.
//
// Texts are bytes with an end-of-text token (256) after each file; the other kinds are
// token files (README.md). All files must be of one kind. Positions are 64-bit; nothing
// is read before it is asked for. const members may be called from several threads.
class TokenSource {
 public:
  // Throws DataError for every path or file that cannot be used, and, unless any bytes
  // are taken, for what is neither text nor tokens. Empty texts in folders are left out.
  explicit TokenSource(const std::vector<std::string>& paths,
                       bool takes_any_bytes = false);

  int64_t num_tokens() const { return ends_.back(); }
  int64_t num_files() const { return std::ssize(files_); }

  // The smallest vocabulary that the format implies: 257 for text, the header's for LLMQ,
  // otherwise 0 (not told).
  int64_t vocab_size() const;

  // One line for people: "text, 143 files, 1,234,567 tokens".
  std::string describe() const;

  // The first path and the number of others, to say in an error where the data lies.
  std::string where() const;

  // A line for each kind of text whose bytes are hardly meant to be learned (TextKind):
  // the first such file, how many there are, and a cure. Reads 64 KiB of each file.
  std::vector<std::string> warnings() const;

  // Copy tokens [begin, begin + count) to `out`, across files. Throws DataError when a
  // file it reads changed.
  void read(int64_t begin, int64_t count, int64_t* out) const;

  // Throws DataError with file, byte offset and id of the first token with id >=
  // vocab_size. Reads all tokens, unless the format cannot hold such an id; a few GB/s
  // when the files are cached.
  void check_ids(int64_t vocab_size, const OnRead& on_read = {}) const;

  int64_t num_bytes() const;  // of all files

  // Identity of the data: XXH3 over the files' names below the given paths, sizes and
  // contents, in order. The same wherever the data lies. Reads every byte, at each call.
  uint64_t content_hash(const OnRead& on_read = {}) const;

 private:
  std::vector<TokenFile> files_;
  std::vector<int64_t> ends_;  // position behind each file's last token
};

// Where no vocabulary was asked for: what the files imply, 0 where they do not tell; of
// text without files. Throws as TokenSource does.
int64_t vocab_of_data(const std::vector<std::string>& paths, bool takes_any_bytes);

}  // namespace zero::data
