#include "checkpoint/layout.h"

#include "checkpoint/h5.h"

namespace zero::checkpoint {
namespace {

// Space is taken at once and never filled: the bytes are written by position later.
H5Handle contiguous_options() {
  H5Handle options = h5_dataset_options();
  check_h5(H5Pset_layout(options, H5D_CONTIGUOUS), "H5Pset_layout");
  check_h5(H5Pset_alloc_time(options, H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
  check_h5(H5Pset_fill_time(options, H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
  return options;
}

Shape stored_shape(const Slice& slice) {
  const bool is_whole = is_replicated(slice.kind) && !slice.shape.empty();
  return is_whole ? slice.shape : Shape{slice.numel};
}

int64_t add_dataset(hid_t file, const Slice& slice) {
  const H5Handle group = h5_group(file, slice.kind);
  const H5Handle type = h5_type(slice.dtype);
  const H5Handle space = h5_space(stored_shape(slice));
  const H5Handle options = contiguous_options();
  H5Handle dataset(H5Dcreate2(group, slice.fqn.c_str(), type, space, h5_link_options(),
                              options, H5P_DEFAULT),
                   H5Dclose, "H5Dcreate2");
  const haddr_t offset = H5Dget_offset(dataset);
  if (offset == HADDR_UNDEF) check_h5(-1, "H5Dget_offset");
  dataset.close();
  return static_cast<int64_t>(offset);
}

}  // namespace

Layout lay_out_shard(const std::vector<Slice>& slices) {
  H5Image image(kAlignment);
  std::vector<int64_t> offsets;
  for (const auto& slice : slices) {
    offsets.push_back(slice.numel > 0 ? add_dataset(image.file(), slice) : -1);
  }
  return {image.finish(), std::move(offsets)};
}

}  // namespace zero::checkpoint
