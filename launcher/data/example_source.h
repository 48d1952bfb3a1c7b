#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launcher/data/source.h"
#include "launcher/data/token_source.h"

namespace zero::data {

// What becomes of an example that is longer than a sample.
enum class TooLong { kError, kDrop, kTruncate };

// Files of examples, as scripts/tokens/examples.py writes them.
struct ExampleFiles {
  std::vector<std::string> tokens;  // token files, one behind the other
  std::string targets;              // a byte for each token: 1, it is trained
  std::string index;                // where each example begins, and its file and line
  std::vector<std::string> texts;   // those files
  std::string shapes;               // for people: "messages"
};

// Examples to learn from: each is a row of tokens of its own, some of which are trained.
//
// A sample is an example, or several with SampleShape::packs, filled up behind its end
// with targets that count for nothing. An example of n tokens takes n - 1 places. Ranges
// count examples. const members may be called from several
// threads.
class ExampleSource : public Source {
 public:
  // Throws DataError for files that do not fit together.
  ExampleSource(ExampleFiles files, TooLong too_long);

  int64_t num_items() const override { return tokens_.num_tokens(); }
  int64_t vocab_size() const override { return tokens_.vocab_size(); }
  std::vector<std::string> class_names() const override { return {}; }
  int64_t image_size() const override { return 0; }
  // "messages, 12,001 examples, 5,961,914 tokens, 812,310 of them trained; the longest
  // has 1,203"
  std::string describe() const override;
  std::string where() const override;
  std::vector<std::string> warnings() const override { return {}; }
  // How many examples are cut or left out.
  std::vector<std::string> notes(const SampleShape& shape) const override;
  std::optional<MarkedTokens> shown_sample(const SampleShape& shape) const override;
  int64_t num_bytes() const override;
  void check_ids(int64_t vocab_size, const OnRead& on_read = {}) const override;
  uint64_t content_hash(const OnRead& on_read = {}) const override;
  int64_t num_samples(const SampleShape& shape) const override;
  std::unique_ptr<Samples> samples(const SampleShape& shape,
                                   const SampleOrder& order) const override;

  // Tokens of an example, as far as they fit into a sample; and which are trained.
  int64_t num_tokens(int64_t example) const;
  void read(int64_t example, int64_t count, int64_t* tokens,
            unsigned char* targets) const;

 private:
  struct Entry {
    int64_t begin;
    int32_t file, line;
  };
  static_assert(sizeof(Entry) == 16);

  // Those that are samples of that length, and how many are longer. Throws DataError for
  // longer ones, if they are not allowed.
  struct Kept {
    std::vector<int64_t> examples;
    int64_t num_long = 0;
  };
  Kept kept(int64_t seq_len) const;
  bool has_target(int64_t example, int64_t seq_len) const;

  const ExampleFiles files_;
  const TooLong too_long_;
  const TokenSource tokens_;
  const MappedFile targets_, index_;
  const Entry* const entries_;  // of index_, which stays mapped
  const int64_t num_examples_;
  int64_t num_targets_ = 0, longest_ = 0;
};

}  // namespace zero::data
