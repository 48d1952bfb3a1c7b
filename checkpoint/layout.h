#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/file.h"
#include "checkpoint/slice.h"

namespace zero::checkpoint {

// Where everything goes in a shard file that has not been written yet.
struct Layout {
  File image;                    // the file as HDF5 made it, without the slices' bytes
  std::vector<int64_t> offsets;  // of each slice, in the given order; -1: an empty one
};

// Let HDF5 plan a shard file: one contiguous dataset per slice that is not empty.
//
// Large slices start on kAlignment bytes. The slices have been checked.
Layout lay_out_shard(const std::vector<Slice>& slices);

}  // namespace zero::checkpoint
