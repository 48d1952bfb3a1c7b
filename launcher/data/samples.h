#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

namespace zero::data {

// Samples as a model takes them: rows of tokens, or of images.
struct Batch {
  int64_t rows = 0;
  int64_t seq_len = 0;                // targets of a row; of an image 1
  std::vector<int64_t> inputs = {};   // (rows, seq_len); of images empty
  std::vector<int64_t> targets = {};  // (rows, seq_len), -1: counts for nothing
  // Of rows that hold several documents: (rows, n), where each ends; the last one ends
  // with the row, and may stand more than once. Empty: a row is a document.
  std::vector<int64_t> document_ends = {};
  int64_t image_size = 0;
  std::vector<float> pixels = {};  // (rows, 3, image_size, image_size); of tokens empty

  int64_t num_targets() const {
    return std::ssize(targets) - std::ranges::count(targets, -1);
  }
};

// Rows of tokens that hold nothing but ignored targets.
Batch empty_batch(int64_t rows, int64_t seq_len);

// Samples [first, first + count) of a source, in the order of its tokens.
struct SampleRange {
  int64_t first = 0, count = 0;
};

// Which samples of a source, in which order.
struct SampleOrder {
  bool shuffle = true;  // a new order in every epoch; false: that of the data
  uint64_t seed = 0;
  SampleRange range = {};  // without a count: all
};

// How samples are made of data.
struct SampleShape {
  int64_t seq_len = 0;     // of tokens
  bool packs = false;      // several examples in a row of tokens
  int64_t image_size = 0;  // of images
  // Images are cut and mirrored at random, each time otherwise.
  bool is_augmented = false;
};

// Samples of a source, by a global index that counts on through all epochs. No state: a
// resumed run continues with the next index. const members may be called from several
// threads.
class Samples {
 public:
  virtual ~Samples() = default;
  virtual int64_t num_samples() const = 0;  // per epoch
  // Rows that hold nothing but ignored targets.
  virtual Batch empty_batch(int64_t rows) const = 0;
  // Put sample indices[i] into row i; the rows behind stay as they are. Throws DataError.
  virtual void read(std::span<const int64_t> indices, Batch& batch) const = 0;
};

}  // namespace zero::data
