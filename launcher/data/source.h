#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/data/file_chunks.h"
#include "launcher/data/samples.h"

namespace zero::data {

// A sample of which some tokens are trained.
struct MarkedTokens {
  std::vector<int64_t> tokens;
  std::vector<bool> trained;  // each of them
  std::string where;          // "a.jsonl, line 1"
};

// What --data PATH... names: files of tokens, or of images. const members may be called
// from several threads; all of them throw DataError when a file changed.
class Source {
 public:
  virtual ~Source() = default;

  virtual int64_t num_items() const = 0;  // tokens, or images
  // How many different targets the data imply; 0: they do not tell.
  virtual int64_t vocab_size() const = 0;
  // Names of the targets; empty: they have none.
  virtual std::vector<std::string> class_names() const = 0;
  // The side of images for a model that is made for these; 0: they do not tell.
  virtual int64_t image_size() const = 0;
  // One line for people: "text, 143 files, 1,234,567 tokens".
  virtual std::string describe() const = 0;
  // The first path and the number of others, to say in an error where the data lies.
  virtual std::string where() const = 0;
  // A line for each kind of file that is hardly what was meant.
  virtual std::vector<std::string> warnings() const = 0;
  // What becomes of some of the data in such samples, for people.
  virtual std::vector<std::string> notes(const SampleShape&) const { return {}; }
  // The first sample, to be shown; nothing: all of it is trained, or it has no tokens.
  virtual std::optional<MarkedTokens> shown_sample(const SampleShape&) const {
    return std::nullopt;
  }
  virtual int64_t num_bytes() const = 0;  // of all files
  // Throws DataError with file and place of the first target that is not below
  // `vocab_size`.
  virtual void check_ids(int64_t vocab_size, const OnRead& on_read = {}) const = 0;
  // Identity of the data: XXH3 over the files' names below the given paths, sizes and
  // contents, in order. The same wherever the data lies. Reads every byte, at each call.
  virtual uint64_t content_hash(const OnRead& on_read = {}) const = 0;
  // As ranges count them: of examples that are packed each is one. Throws DataError when
  // the data hold less than one sample.
  virtual int64_t num_samples(const SampleShape& shape) const = 0;
  // This object must outlive them.
  virtual std::unique_ptr<Samples> samples(const SampleShape& shape,
                                           const SampleOrder& order) const = 0;
};

}  // namespace zero::data
