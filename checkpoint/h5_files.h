#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/file.h"
#include "checkpoint/slices.h"

// The HDF5 files of a checkpoint, made in memory without their values. The last one of
// each function is kept, as the next save of a run has the same.
namespace zero::checkpoint {

// Where everything goes in a shard file that has not been written yet.
struct Layout {
  File image;                    // the file as HDF5 made it, without the slices' bytes
  std::vector<int64_t> offsets;  // of each slice, in the given order; -1: an empty one
};

// Let HDF5 plan a shard file: one contiguous dataset per slice that is not empty.
//
// Large slices start on kAlignment bytes. The slices have been checked.
std::shared_ptr<const Layout> lay_out_shard(const std::vector<Slice>& slices);

// Make checkpoint.h5: every tensor under /KIND/FQN in its natural shape, as a virtual
// dataset over the shard files beside it. It holds no values itself.
//
// A missing shard reads as all bits set: NaN, -1 or 255. A scalar appears as shape (1).
// Aliases are hard links to their parameter.
std::shared_ptr<const File> make_virtual_image(
    const std::vector<StoredTensor>& tensors,
    const std::map<std::string, std::string>& aliases);

// Versions of HDF5: the headers that this was built with, and the library that is loaded.
std::pair<std::string, std::string> hdf5_versions();

}  // namespace zero::checkpoint
