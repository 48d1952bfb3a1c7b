#include "checkpoint/h5_files.h"

#include <hdf5.h>
#include <sys/mman.h>

#include <cerrno>
#include <mutex>
#include <optional>

#include "base/files.h"
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "checkpoint/h5.h"

namespace zero::checkpoint {
namespace {

// For something that is created: without its time, so that equal checkpoints are equal
// files.
H5Handle make_timeless_options(hid_t kind) {
  H5Handle options = make_options(kind);
  check_h5(H5Pset_obj_track_times(options, false), "H5Pset_obj_track_times");
  return options;
}

// Names are UTF-8.
H5Handle make_link_options() {
  H5Handle options = make_options(H5P_LINK_CREATE);
  check_h5(H5Pset_char_encoding(options, H5T_CSET_UTF8), "H5Pset_char_encoding");
  return options;
}

H5Handle make_group(hid_t file, Kind kind) {
  return H5Handle(H5Gcreate2(file, name_of(kind), H5P_DEFAULT,
                             make_timeless_options(H5P_GROUP_CREATE), H5P_DEFAULT),
                  H5Gclose, "H5Gcreate2");
}

File make_memory_file() {
  const int descriptor = ::memfd_create("zero checkpoint layout", MFD_CLOEXEC);
  if (descriptor < 0) throw_errno("memory file", "create", errno);
  return File(descriptor, text_of("/proc/self/fd/", descriptor));
}

// An HDF5 file in memory, written by one thread of the process at a time.
//
// HDF5 1.10 can lose an I/O error, so it never sees the disk: it lays the file out in an
// anonymous memory file, whose parts nobody wrote cost nothing, and we copy what matters.
class H5Image {
 public:
  // The stdio driver is the one that takes a path under /proc/self/fd. The latest format
  // checksums metadata.
  explicit H5Image(int64_t alignment) : memory_(make_memory_file()) {
    const H5Handle access = make_options(H5P_FILE_ACCESS);
    check_h5(H5Pset_fapl_stdio(access), "H5Pset_fapl_stdio");
    check_h5(H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST),
             "H5Pset_libver_bounds");
    const auto step = static_cast<hsize_t>(alignment);
    check_h5(H5Pset_alignment(access, step, step), "H5Pset_alignment");
    keep_little(access);
    file_ = std::make_unique<H5Handle>(
        H5Fcreate(memory_.path().c_str(), H5F_ACC_TRUNC,
                  make_timeless_options(H5P_FILE_CREATE), access),
        H5Fclose, "H5Fcreate");
  }

  H5Handle add_dataset(const StoredTensor& tensor, hid_t space, hid_t options) {
    return H5Handle(
        H5Dcreate2(group(tensor.kind), tensor.fqn.c_str(), make_type(tensor.dtype), space,
                   of_links_, options, H5P_DEFAULT),
        H5Dclose, "H5Dcreate2");
  }
  void add_alias(const std::string& alias, const std::string& fqn) {
    const hid_t params = group(Kind::kParam);
    check_h5(H5Lcreate_hard(params, fqn.c_str(), params, alias.c_str(), of_links_,
                            H5P_DEFAULT),
             "H5Lcreate_hard");
  }

  // Close it in HDF5; every other handle has been closed.
  File finish() {
    for (auto& [kind, group] : groups_) group.close();
    file_->close();
    return std::move(memory_);
  }

 private:
  hid_t group(Kind kind) {
    auto found = groups_.find(kind);
    if (found == groups_.end())
      found = groups_.emplace(kind, make_group(*file_, kind)).first;
    return found->second;
  }

  H5Turn turn_;
  File memory_;
  std::unique_ptr<H5Handle> file_;
  // Made once: with many tensors these would take longer than all else.
  const H5Handle of_links_ = make_link_options();
  std::map<Kind, H5Handle> groups_;
};

// ---- Our files.

// Space is taken at once and never filled: the bytes are written by position later.
H5Handle contiguous_options() {
  H5Handle options = make_timeless_options(H5P_DATASET_CREATE);
  check_h5(H5Pset_layout(options, H5D_CONTIGUOUS), "H5Pset_layout");
  check_h5(H5Pset_alloc_time(options, H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
  check_h5(H5Pset_fill_time(options, H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
  return options;
}

Shape visible_shape(const StoredTensor& tensor) {
  return tensor.shape.empty() ? Shape{1} : tensor.shape;
}

// Replicated tensors lie in their shard in full shape, others flat.
Shape shape_in_shard(const StoredTensor& tensor, int64_t numel) {
  return is_replicated(tensor.kind) ? visible_shape(tensor) : Shape{numel};
}

// `tensor` has its shape in the shard.
int64_t add_slice(H5Image& image, const StoredTensor& tensor, hid_t options) {
  const H5Handle space = make_space(tensor.shape);
  H5Handle dataset = image.add_dataset(tensor, space, options);
  const haddr_t offset = H5Dget_offset(dataset);
  if (offset == HADDR_UNDEF) check_h5(-1, "H5Dget_offset");
  dataset.close();
  return static_cast<int64_t>(offset);
}

// HDF5 takes a '%' in a source's name for a pattern.
std::string source_path(const StoredTensor& tensor) {
  std::string path = text_of("/", name_of(tensor.kind), "/");
  for (const char c : tensor.fqn)
    path += c == '%' ? std::string("%%") : std::string(1, c);
  return path;
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
  int64_t done = 0;
  for (const auto& box : boxes_of_range(visible_shape(tensor), piece.begin, numel)) {
    const int64_t box_numel = checked_numel(box.count).value();
    select(source, {{done}, {box_numel}});
    select(full, box);
    map(options, full, tensor, piece, source);
    done += box_numel;
  }
}

void map_pieces(hid_t options, hid_t full, const StoredTensor& tensor) {
  const uint64_t all_bits_set = ~uint64_t{0};
  check_h5(H5Pset_fill_value(options, make_type(tensor.dtype), &all_bits_set),
           "H5Pset_fill_value");
  for (const auto& piece : tensor.pieces) {
    const int64_t numel = piece.bytes / size_of(tensor.dtype);
    const H5Handle source = make_space(shape_in_shard(tensor, numel));
    if (is_replicated(tensor.kind)) {
      map(options, full, tensor, piece, source);
    } else {
      map_boxes(options, full, tensor, piece, source);
    }
  }
  check_h5(H5Sselect_all(full), "H5Sselect_all");
}

void add_tensor(H5Image& image, const StoredTensor& tensor) {
  const H5Handle full = make_space(visible_shape(tensor));
  const H5Handle options = make_timeless_options(H5P_DATASET_CREATE);
  if (!tensor.pieces.empty()) map_pieces(options, full, tensor);
  image.add_dataset(tensor, full, options).close();
}

// ---- What was made last. Saves of a run have other values, in the same places.

template <class Key, class Made>
class LastMade {
 public:
  template <class Make>
  std::shared_ptr<const Made> get(Key key, const Make& make) {
    const std::lock_guard lock(mutex_);
    if (key_ != key) {
      key_.reset();
      made_ = std::make_shared<const Made>(make(key));
      key_ = std::move(key);
    }
    return made_;
  }

 private:
  std::mutex mutex_;
  std::optional<Key> key_;
  std::shared_ptr<const Made> made_;
};

// What of a shard HDF5 is told.
std::vector<StoredTensor> tensors_of_shard(const std::vector<Slice>& slices) {
  std::vector<StoredTensor> tensors;
  for (const Slice& slice : slices) {
    const StoredTensor& whole = slice.tensor;
    tensors.push_back(
        {whole.kind, whole.fqn, whole.dtype, shape_in_shard(whole, slice.numel)});
  }
  return tensors;
}

Layout make_layout(const std::vector<StoredTensor>& tensors) {
  H5Image image(kAlignment);
  const H5Handle options = contiguous_options();
  std::vector<int64_t> offsets;
  for (const StoredTensor& tensor : tensors)
    offsets.push_back(tensor.numel() > 0 ? add_slice(image, tensor, options) : -1);
  return {image.finish(), std::move(offsets)};
}

struct VirtualFile {
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> aliases;

  bool operator==(const VirtualFile&) const = default;
};

File make_image(const VirtualFile& file) {
  H5Image image(1);
  for (const auto& tensor : file.tensors) add_tensor(image, tensor);
  for (const auto& [alias, fqn] : file.aliases) image.add_alias(alias, fqn);
  return image.finish();
}

}  // namespace

std::shared_ptr<const Layout> lay_out_shard(const std::vector<Slice>& slices) {
  static LastMade<std::vector<StoredTensor>, Layout> last;
  return last.get(tensors_of_shard(slices), make_layout);
}

std::shared_ptr<const File> make_virtual_image(
    const std::vector<StoredTensor>& tensors,
    const std::map<std::string, std::string>& aliases) {
  static LastMade<VirtualFile, File> last;
  VirtualFile file{tensors, aliases};
  for (StoredTensor& tensor : file.tensors) {
    for (Piece& piece : tensor.pieces) piece.hashes.clear();
  }
  return last.get(std::move(file), make_image);
}

std::pair<std::string, std::string> hdf5_versions() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return {text_of(H5_VERS_MAJOR, ".", H5_VERS_MINOR, ".", H5_VERS_RELEASE),
          text_of(major, ".", minor, ".", release)};
}

}  // namespace zero::checkpoint
