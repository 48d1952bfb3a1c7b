#include "checkpoint/h5_files.h"

#include "checkpoint/format.h"
#include "checkpoint/h5.h"

namespace zero::checkpoint {
namespace {

using Dims = std::vector<hsize_t>;

// Space is taken at once and never filled: the bytes are written by position later.
H5Handle contiguous_options() {
  H5Handle options = h5_dataset_options();
  check_h5(H5Pset_layout(options, H5D_CONTIGUOUS), "H5Pset_layout");
  check_h5(H5Pset_alloc_time(options, H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
  check_h5(H5Pset_fill_time(options, H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
  return options;
}

H5Handle add_dataset(hid_t file, const StoredTensor& tensor, hid_t space, hid_t options) {
  const H5Handle group = h5_group(file, tensor.kind);
  return H5Handle(H5Dcreate2(group, tensor.fqn.c_str(), h5_type(tensor.dtype), space,
                             h5_link_options(), options, H5P_DEFAULT),
                  H5Dclose, "H5Dcreate2");
}

Shape visible_shape(const StoredTensor& tensor) {
  return tensor.shape.empty() ? Shape{1} : tensor.shape;
}

// Replicated tensors lie in their shard in full shape, others flat.
Shape shape_in_shard(const StoredTensor& tensor, int64_t numel) {
  return is_replicated(tensor.kind) ? visible_shape(tensor) : Shape{numel};
}

int64_t add_slice(hid_t file, const Slice& slice) {
  const H5Handle space = h5_space(shape_in_shard(slice.tensor, slice.numel));
  H5Handle dataset = add_dataset(file, slice.tensor, space, contiguous_options());
  const haddr_t offset = H5Dget_offset(dataset);
  if (offset == HADDR_UNDEF) check_h5(-1, "H5Dget_offset");
  dataset.close();
  return static_cast<int64_t>(offset);
}

// HDF5 takes a '%' in a source's name for a pattern.
std::string source_path(const StoredTensor& tensor) {
  std::string path = std::string("/") + name_of(tensor.kind) + "/";
  for (const char c : tensor.fqn)
    path += c == '%' ? std::string("%%") : std::string(1, c);
  return path;
}

void select(hid_t space, const Dims& start, const Dims& count) {
  check_h5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(),
                               nullptr),
           "H5Sselect_hyperslab");
}

void map(hid_t options, hid_t full, const StoredTensor& tensor, const Piece& piece,
         hid_t source) {
  check_h5(H5Pset_virtual(options, full, piece.file.c_str(), source_path(tensor).c_str(),
                          source),
           "H5Pset_virtual");
}

// Map the flat dataset of a shard onto boxes of the tensor.
void map_boxes(hid_t options, hid_t full, const StoredTensor& tensor, const Piece& piece,
               hid_t source) {
  const int64_t numel = piece.bytes / size_of(tensor.dtype);
  hsize_t done = 0;
  for (const auto& box : boxes_of_range(visible_shape(tensor), piece.begin, numel)) {
    const auto box_numel = static_cast<hsize_t>(checked_numel(box.count).value());
    select(source, {done}, {box_numel});
    select(full, Dims(box.start.begin(), box.start.end()),
           Dims(box.count.begin(), box.count.end()));
    map(options, full, tensor, piece, source);
    done += box_numel;
  }
}

void map_pieces(hid_t options, hid_t full, const StoredTensor& tensor) {
  const uint64_t all_bits_set = ~uint64_t{0};
  check_h5(H5Pset_fill_value(options, h5_type(tensor.dtype), &all_bits_set),
           "H5Pset_fill_value");
  for (const auto& piece : tensor.pieces) {
    const int64_t numel = piece.bytes / size_of(tensor.dtype);
    const H5Handle source = h5_space(shape_in_shard(tensor, numel));
    if (is_replicated(tensor.kind)) {
      map(options, full, tensor, piece, source);
    } else {
      map_boxes(options, full, tensor, piece, source);
    }
  }
  check_h5(H5Sselect_all(full), "H5Sselect_all");
}

void add_tensor(hid_t file, const StoredTensor& tensor) {
  const H5Handle full = h5_space(visible_shape(tensor));
  const H5Handle options = h5_dataset_options();
  if (!tensor.pieces.empty()) map_pieces(options, full, tensor);
  add_dataset(file, tensor, full, options).close();
}

void add_alias(hid_t file, const std::string& alias, const std::string& fqn) {
  const H5Handle group = h5_group(file, Kind::kParam);
  check_h5(H5Lcreate_hard(group, fqn.c_str(), group, alias.c_str(), h5_link_options(),
                          H5P_DEFAULT),
           "H5Lcreate_hard");
}

}  // namespace

Layout lay_out_shard(const std::vector<Slice>& slices) {
  H5Image image(kAlignment);
  std::vector<int64_t> offsets;
  for (const auto& slice : slices)
    offsets.push_back(slice.numel > 0 ? add_slice(image.file(), slice) : -1);
  return {image.finish(), std::move(offsets)};
}

File make_virtual_image(const std::vector<StoredTensor>& tensors,
                        const std::map<std::string, std::string>& aliases) {
  H5Image image(1);
  for (const auto& tensor : tensors) add_tensor(image.file(), tensor);
  for (const auto& [alias, fqn] : aliases) add_alias(image.file(), alias, fqn);
  return image.finish();
}

}  // namespace zero::checkpoint
