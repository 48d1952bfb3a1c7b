#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/shape.h"

namespace zero::checkpoint {

// What one rank wrote of one tensor. Empty slices are told too, with offset -1.
struct SliceReport {
  Kind kind = Kind::kParam;
  std::string fqn;
  Shape shape;
  DType dtype = DType::kFp32;
  int64_t begin = 0;
  int64_t numel = 0;
  int64_t offset = -1;
  std::vector<uint64_t> hashes;  // as in Piece
};

// What one rank wrote: rank 0 needs everybody's to commit.
struct ShardReport {
  int rank = 0;
  int world_size = 1;
  int64_t bytes = 0;         // of the shard file
  uint64_t layout_hash = 0;  // of its bytes that belong to no slice
  std::vector<SliceReport> slices;
};

// To bytes and back, so that reports can be gathered by whoever knows how.
std::string to_text(const ShardReport& report);
ShardReport parse_report(std::string_view text);  // throws CheckpointError

}  // namespace zero::checkpoint
