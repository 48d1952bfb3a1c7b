#include "checkpoint/h5_files.h"

#include <hdf5.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>

#include "base/files.h"
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"

namespace zero::checkpoint {
namespace {

std::string to_text(unsigned major, unsigned minor, unsigned release) {
  return std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(release);
}

// ---- HDF5's C library, checked.

herr_t append_message(unsigned, const H5E_error2_t* error, void* text) {
  *static_cast<std::string*>(text) +=
      std::string(": ") + (error->desc ? error->desc : "");
  return 0;
}

// Throw CheckpointError with HDF5's own error stack when `result` is negative.
int64_t check_h5(int64_t result, const char* call) {
  if (result >= 0) return result;
  // The library tells of a failed system call only sometimes.
  const bool is_known = errno == EFBIG || errno == ENOSPC || errno == ENOMEM;
  std::string messages = is_known ? std::string(": ") + std::strerror(errno) : "";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, append_message, &messages);
  throw CheckpointError("", "", text_of(call, " failed", messages));
}

// Own an HDF5 identifier.
class H5Handle {
 public:
  using Close = herr_t (*)(hid_t);
  H5Handle(hid_t id, Close close, const char* call)
      : id_(check_h5(id, call)), close_(close) {}
  ~H5Handle() {
    if (id_ >= 0) close_(id_);
  }
  H5Handle(H5Handle&& other) noexcept
      : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  H5Handle& operator=(H5Handle&&) = delete;

  // Checked, where the destructor cannot.
  void close() { check_h5(close_(std::exchange(id_, -1)), "closing an HDF5 object"); }
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  Close close_;
};

H5Handle make_options(hid_t kind) {
  return H5Handle(H5Pcreate(kind), H5Pclose, "H5Pcreate");
}

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

H5Handle copy_type(hid_t type) { return H5Handle(H5Tcopy(type), H5Tclose, "H5Tcopy"); }

// 16 bits: a sign, the exponent, the mantissa. Nothing in HDF5 is called bf16, the upper
// half of a float; readers convert by the fields.
H5Handle make_half(size_t exponent_bits) {
  const size_t mantissa_bits = 15 - exponent_bits;
  const size_t bias = (size_t{1} << (exponent_bits - 1)) - 1;
  H5Handle type = copy_type(H5T_IEEE_F32LE);
  check_h5(H5Tset_fields(type, 15, mantissa_bits, exponent_bits, 0, mantissa_bits),
           "H5Tset_fields");
  check_h5(H5Tset_size(type, 2), "H5Tset_size");
  check_h5(H5Tset_ebias(type, bias), "H5Tset_ebias");
  return type;
}

H5Handle make_type(DType dtype) {
  if (dtype == DType::kBf16) return make_half(8);
  if (dtype == DType::kFp16) return make_half(5);
  const std::map<DType, hid_t> types = {
      {DType::kFp64, H5T_IEEE_F64LE}, {DType::kFp32, H5T_IEEE_F32LE},
      {DType::kInt64, H5T_STD_I64LE}, {DType::kInt32, H5T_STD_I32LE},
      {DType::kUint8, H5T_STD_U8LE},  {DType::kBool, H5T_STD_U8LE}};
  return copy_type(types.at(dtype));
}

H5Handle make_space(const Shape& shape) {
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  return H5Handle(
      H5Screate_simple(static_cast<int>(dims.size()), dims.data(), dims.data()), H5Sclose,
      "H5Screate_simple");
}

H5Handle open_group(hid_t file, Kind kind) {
  const htri_t exists = H5Lexists(file, name_of(kind), H5P_DEFAULT);
  if (check_h5(exists, "H5Lexists") > 0) {
    return H5Handle(H5Gopen2(file, name_of(kind), H5P_DEFAULT), H5Gclose, "H5Gopen2");
  }
  return H5Handle(H5Gcreate2(file, name_of(kind), H5P_DEFAULT,
                             make_timeless_options(H5P_GROUP_CREATE), H5P_DEFAULT),
                  H5Gclose, "H5Gcreate2");
}

File make_memory_file() {
  const int descriptor = ::memfd_create("zero checkpoint layout", MFD_CLOEXEC);
  if (descriptor < 0) throw_errno("memory file", "create", errno);
  return File(descriptor, text_of("/proc/self/fd/", descriptor));
}

std::mutex library_mutex;  // not every build of HDF5 is thread-safe

// The metadata that is kept of a file: HDF5's 32 MiB on the disk are 500 MiB in memory.
void keep_little(hid_t access) {
  constexpr size_t kBytes = 64 << 10;
  H5AC_cache_config_t cache;
  cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  check_h5(H5Pget_mdc_config(access, &cache), "H5Pget_mdc_config");
  cache.set_initial_size = true;
  cache.initial_size = cache.min_size = cache.max_size = kBytes;
  cache.incr_mode = H5C_incr__off;
  cache.flash_incr_mode = H5C_flash_incr__off;
  cache.decr_mode = H5C_decr__off;
  check_h5(H5Pset_mdc_config(access, &cache), "H5Pset_mdc_config");
}

// An HDF5 file in memory, written by one thread of the process at a time.
//
// HDF5 1.10 can lose an I/O error, so it never sees the disk: it lays the file out in an
// anonymous memory file, whose parts nobody wrote cost nothing, and we copy what matters.
class H5Image {
 public:
  // H5dont_atexit: after a failure HDF5's cleanup at exit can crash. The stdio driver is
  // the one that takes a path under /proc/self/fd. The latest format checksums metadata.
  explicit H5Image(int64_t alignment)
      : lock_(library_mutex), memory_(make_memory_file()) {
    H5dont_atexit();
    check_h5(H5open(), "H5open");
    H5Eget_auto2(H5E_DEFAULT, &print_errors_, &print_errors_to_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
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
  ~H5Image() {
    file_.reset();
    H5garbage_collect();
    H5Eset_auto2(H5E_DEFAULT, print_errors_, print_errors_to_);
  }

  hid_t file() const { return *file_; }

  // Close it in HDF5; every other handle has been closed.
  File finish() {
    file_->close();
    return std::move(memory_);
  }

 private:
  std::lock_guard<std::mutex> lock_;
  H5E_auto2_t print_errors_ = nullptr;
  void* print_errors_to_ = nullptr;
  File memory_;
  std::unique_ptr<H5Handle> file_;
};

// ---- Our files.

using Dims = std::vector<hsize_t>;

// Space is taken at once and never filled: the bytes are written by position later.
H5Handle contiguous_options() {
  H5Handle options = make_timeless_options(H5P_DATASET_CREATE);
  check_h5(H5Pset_layout(options, H5D_CONTIGUOUS), "H5Pset_layout");
  check_h5(H5Pset_alloc_time(options, H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
  check_h5(H5Pset_fill_time(options, H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
  return options;
}

H5Handle add_dataset(hid_t file, const StoredTensor& tensor, hid_t space, hid_t options) {
  const H5Handle group = open_group(file, tensor.kind);
  return H5Handle(H5Dcreate2(group, tensor.fqn.c_str(), make_type(tensor.dtype), space,
                             make_link_options(), options, H5P_DEFAULT),
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
  const H5Handle space = make_space(shape_in_shard(slice.tensor, slice.numel));
  H5Handle dataset = add_dataset(file, slice.tensor, space, contiguous_options());
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

void add_tensor(hid_t file, const StoredTensor& tensor) {
  const H5Handle full = make_space(visible_shape(tensor));
  const H5Handle options = make_timeless_options(H5P_DATASET_CREATE);
  if (!tensor.pieces.empty()) map_pieces(options, full, tensor);
  add_dataset(file, tensor, full, options).close();
}

void add_alias(hid_t file, const std::string& alias, const std::string& fqn) {
  const H5Handle group = open_group(file, Kind::kParam);
  check_h5(H5Lcreate_hard(group, fqn.c_str(), group, alias.c_str(), make_link_options(),
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

std::pair<std::string, std::string> hdf5_versions() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return {to_text(H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE),
          to_text(major, minor, release)};
}

}  // namespace zero::checkpoint
