#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/shape.h"

namespace zero::checkpoint {

// A rank's part of one tensor: the elements [begin, begin + numel) of it, flat.
//
// `shape` is the full tensor's. A part may be empty; then only the shape is checked
// against the other ranks' and no bytes are stored. `data` is borrowed.
struct Slice {
  Kind kind = Kind::kParam;
  std::string fqn;
  Shape shape;
  DType dtype = DType::kFp32;
  int64_t begin = 0;
  int64_t numel = 0;
  const void* data = nullptr;

  int64_t num_bytes() const { return numel * size_of(dtype); }
};

// Refuse, naming the FQN: a bad or repeated name, a bad shape, a range outside of it, a
// buffer or user bytes that are not whole or not on rank 0.
void check_slices(const std::vector<Slice>& slices, int rank);

}  // namespace zero::checkpoint
