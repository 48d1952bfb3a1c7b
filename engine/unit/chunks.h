#pragma once
#include <torch/torch.h>

#include <string>
#include <vector>

#include "base/no_copy.h"
#include "zero/unit.h"

namespace zero {

// How one unit call goes through its batch: in `count` micro-batches (Accumulate::kUnit),
// or at once.
struct Chunking {
  int64_t count = 1;
  std::vector<bool> is_split;  // of each input
};

// `rows_per_chunk` 0: at once. Throws Error(kUsage) when the batch does not divide, or
// when an unmarked input only looks batched.
Chunking chunking_of(const std::vector<UnitInput>& inputs, int64_t rows_per_chunk,
                     const std::string& fqn);

// Chunk `c` of the split inputs; the others as they are.
std::vector<at::Tensor> chunk_of(const std::vector<at::Tensor>& inputs,
                                 const Chunking& chunking, int64_t c);

// How the values of one output from several chunks become one.
enum class Join { kRows, kSum, kMean, kFirst };

// Remembers what sum_of_chunks() and its sisters are told in this thread while it lives.
class JoinMarks : NoCopy {
 public:
  JoinMarks();
  ~JoinMarks();

  void mark(const at::Tensor& result, Join join);
  Join of(const at::Tensor& result) const;  // unmarked: rows

 private:
  std::vector<std::pair<at::Tensor, Join>> marks_;
  JoinMarks* outer_;
};

// Throws Error(kUsage) when the values do not have the rows of their chunk.
at::Tensor join_outputs(const std::vector<at::Tensor>& parts, Join join,
                        int64_t rows_per_chunk, const std::string& fqn);

// The part of a joined output's gradient that belongs to chunk `c`; undefined: none.
at::Tensor grad_of_chunk(const at::Tensor& grad, Join join, int64_t c, int64_t count);

// The gradient of an input from those of its chunks, which may be undefined where a chunk
// did not use it: rows one after the other, or a sum in fp32.
at::Tensor join_grads(const std::vector<at::Tensor>& grads, bool is_split);

}  // namespace zero
