#include "checkpoint/virtual_file.h"

#include "checkpoint/error.h"
#include "checkpoint/h5.h"

namespace zero::checkpoint {
namespace {

using Dims = std::vector<hsize_t>;

Shape visible_shape(const TensorEntry& tensor) {
  return tensor.shape.empty() ? Shape{1} : tensor.shape;
}

// HDF5 takes a '%' in a source's name for a pattern.
std::string source_path(const TensorEntry& tensor) {
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

int64_t numel_of(const Shape& count) { return checked_numel(count).value(); }

// Map the flat dataset of a shard onto boxes of the tensor.
void map_slice(hid_t options, hid_t full, const TensorEntry& tensor, const Piece& piece) {
  const std::string path = source_path(tensor);
  const int64_t numel = piece.bytes / size_of(tensor.dtype);
  const H5Handle source = h5_space({numel});
  int64_t done = 0;
  for (const auto& box : boxes_of_range(visible_shape(tensor), piece.begin, numel)) {
    const int64_t box_numel = numel_of(box.count);
    select(source, {static_cast<hsize_t>(done)}, {static_cast<hsize_t>(box_numel)});
    select(full, Dims(box.start.begin(), box.start.end()),
           Dims(box.count.begin(), box.count.end()));
    check_h5(H5Pset_virtual(options, full, piece.file.c_str(), path.c_str(), source),
             "H5Pset_virtual");
    done += box_numel;
  }
}

// Replicated tensors lie in their shard in full shape.
void map_whole(hid_t options, hid_t full, const TensorEntry& tensor) {
  const H5Handle source = h5_space(visible_shape(tensor));
  check_h5(H5Pset_virtual(options, full, tensor.pieces.front().file.c_str(),
                          source_path(tensor).c_str(), source),
           "H5Pset_virtual");
}

void map_pieces(hid_t options, hid_t full, hid_t type, const TensorEntry& tensor) {
  const uint64_t all_bits_set = ~uint64_t{0};
  check_h5(H5Pset_fill_value(options, type, &all_bits_set), "H5Pset_fill_value");
  if (is_replicated(tensor.kind)) return map_whole(options, full, tensor);
  for (const auto& piece : tensor.pieces) map_slice(options, full, tensor, piece);
  check_h5(H5Sselect_all(full), "H5Sselect_all");
}

void add_tensor(hid_t file, const TensorEntry& tensor) {
  const H5Handle group = h5_group(file, tensor.kind);
  const H5Handle type = h5_type(tensor.dtype);
  const H5Handle full = h5_space(visible_shape(tensor));
  const H5Handle options = h5_dataset_options();
  if (!tensor.pieces.empty()) map_pieces(options, full, type, tensor);
  H5Handle dataset(H5Dcreate2(group, tensor.fqn.c_str(), type, full, h5_link_options(),
                              options, H5P_DEFAULT),
                   H5Dclose, "H5Dcreate2");
  dataset.close();
}

void add_alias(hid_t file, const std::string& alias, const std::string& fqn) {
  const H5Handle group = h5_group(file, Kind::kParam);
  check_h5(H5Lcreate_hard(group, fqn.c_str(), group, alias.c_str(), h5_link_options(),
                          H5P_DEFAULT),
           "H5Lcreate_hard");
}

}  // namespace

File make_virtual_image(const std::vector<TensorEntry>& tensors,
                        const std::map<std::string, std::string>& aliases) {
  H5Image image(1);
  for (const auto& tensor : tensors) add_tensor(image.file(), tensor);
  for (const auto& [alias, fqn] : aliases) add_alias(image.file(), alias, fqn);
  return image.finish();
}

}  // namespace zero::checkpoint
