#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/data/source.h"
#include "launcher/data/token_file.h"

namespace zero::data {

// One long row of tokens out of files and folders, in the order given: what --data
// PATH... names.
//
// Texts are bytes with an end-of-text token (256) after each file; the other kinds are
// token files (README.md). All files must be of one kind. Positions are 64-bit; nothing
// is read before it is asked for. const members may be called from several threads.
class TokenSource : public Source {
 public:
  // Throws DataError for every path or file that cannot be used, and for what is neither
  // tokens nor such texts. Empty texts in folders are left out.
  explicit TokenSource(const std::vector<std::string>& paths,
                       Texts texts = Texts::kPlain);

  int64_t num_tokens() const { return ends_.back(); }
  int64_t num_files() const { return std::ssize(files_); }
  std::vector<std::string> paths() const;  // of the files
  bool is_text() const;                    // whose bytes are the tokens

  int64_t num_items() const override { return num_tokens(); }
  // 257 for text, the header's for LLMQ, otherwise 0 (not told).
  int64_t vocab_size() const override;
  std::vector<std::string> class_names() const override { return {}; }
  int64_t image_size() const override { return 0; }
  std::string describe() const override;
  std::string where() const override;
  // A line for each kind of text whose bytes are hardly meant to be learned (TextKind):
  // the first such file, how many there are, and a cure. Reads 64 KiB of each file.
  std::vector<std::string> warnings() const override;

  // Copy tokens [begin, begin + count) to `out`, across files. Throws DataError when a
  // file it reads changed.
  void read(int64_t begin, int64_t count, int64_t* out) const;

  // Reads all tokens, unless the format cannot hold such an id; a few GB/s when the files
  // are cached.
  void check_ids(int64_t vocab_size, const OnRead& on_read = {}) const override;

  int64_t num_bytes() const override;
  uint64_t content_hash(const OnRead& on_read = {}) const override;
  int64_t num_samples(const SampleShape& shape) const override;
  std::unique_ptr<Samples> samples(const SampleShape& shape,
                                   const SampleOrder& order) const override;

 private:
  std::vector<TokenFile> files_;
  std::vector<int64_t> ends_;  // position behind each file's last token
};

}  // namespace zero::data
