#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "checkpoint/manifest.h"

namespace zero::checkpoint {

// A rank's part of one tensor, in memory: its elements [begin, begin + numel), flat.
//
// A part may be empty; then only the tensor's shape is checked against the other ranks'
// and no bytes are stored. `data` is borrowed; where the values lie in memory otherwise
// than in the file, `fetch` gives them instead.
struct Slice {
  StoredTensor tensor;
  int64_t begin = 0;
  int64_t numel = 0;
  const void* data = nullptr;
  // Put elements [first, first + count), of the part, to `to`.
  std::function<void(int64_t first, int64_t count, void* to)> fetch = {};

  int64_t num_bytes() const { return numel * size_of(tensor.dtype); }
};

int64_t bytes_of(const std::vector<Slice>& slices);

// Refuse, naming the FQN: a bad or repeated name, a bad shape, a range outside of it, a
// buffer or user bytes that are not whole or not on rank 0.
void check_slices(const std::vector<Slice>& slices, int rank);

// Put what the ranks wrote together into whole tensors, sorted by kind and name.
//
// Throws CheckpointError naming the FQN and the ranks: a gap, an overlap, ranks that
// disagree about shape or type; and naming the rank: a missing or repeated report.
std::vector<StoredTensor> join_slices(const std::vector<ShardReport>& reports);

}  // namespace zero::checkpoint
