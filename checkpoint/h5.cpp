#include "checkpoint/h5.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "checkpoint/error.h"

namespace zero::checkpoint {
namespace {

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

herr_t append_message(unsigned, const H5E_error2_t* error, void* text) {
  *static_cast<std::string*>(text) +=
      std::string(": ") + (error->desc ? error->desc : "");
  return 0;
}

File make_memory_file() {
  const int descriptor = ::memfd_create("zero checkpoint layout", MFD_CLOEXEC);
  if (descriptor < 0) throw_errno("memory file", "create", errno);
  return File(descriptor, "/proc/self/fd/" + std::to_string(descriptor));
}

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

// 16 bits: a sign, the exponent, the mantissa. Nothing in HDF5 is called bf16, the upper
// half of a float; readers convert by the fields.
H5Handle make_half(size_t exponent_bits) {
  const size_t mantissa_bits = 15 - exponent_bits;
  const size_t bias = (size_t{1} << (exponent_bits - 1)) - 1;
  H5Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, "H5Tcopy");
  check_h5(H5Tset_fields(type, 15, mantissa_bits, exponent_bits, 0, mantissa_bits),
           "H5Tset_fields");
  check_h5(H5Tset_size(type, 2), "H5Tset_size");
  check_h5(H5Tset_ebias(type, bias), "H5Tset_ebias");
  return type;
}

H5Handle copy_type(hid_t type) { return H5Handle(H5Tcopy(type), H5Tclose, "H5Tcopy"); }

}  // namespace

int64_t check_h5(int64_t result, const char* call) {
  if (result >= 0) return result;
  // The library tells of a failed system call only sometimes.
  const bool is_known = errno == EFBIG || errno == ENOSPC || errno == ENOMEM;
  std::string messages = is_known ? std::string(": ") + std::strerror(errno) : "";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, append_message, &messages);
  throw CheckpointError("", "", std::string(call) + " failed" + messages);
}

H5Handle::H5Handle(hid_t id, Close close, const char* call)
    : id_(check_h5(id, call)), close_(close) {}

H5Handle::~H5Handle() {
  if (id_ >= 0) close_(id_);
}

H5Handle::H5Handle(H5Handle&& other) noexcept
    : id_(std::exchange(other.id_, -1)), close_(other.close_) {}

void H5Handle::close() {
  check_h5(close_(std::exchange(id_, -1)), "closing an HDF5 object");
}

H5Handle h5_type(DType dtype) {
  switch (dtype) {
    case DType::kFp64:
      return copy_type(H5T_IEEE_F64LE);
    case DType::kFp32:
      return copy_type(H5T_IEEE_F32LE);
    case DType::kBf16:
      return make_half(8);
    case DType::kFp16:
      return make_half(5);
    case DType::kInt64:
      return copy_type(H5T_STD_I64LE);
    case DType::kInt32:
      return copy_type(H5T_STD_I32LE);
    case DType::kUint8:
    case DType::kBool:
      break;
  }
  return copy_type(H5T_STD_U8LE);
}

H5Handle h5_space(const Shape& shape) {
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  return H5Handle(
      H5Screate_simple(static_cast<int>(dims.size()), dims.data(), dims.data()), H5Sclose,
      "H5Screate_simple");
}

H5Handle h5_dataset_options() { return make_timeless_options(H5P_DATASET_CREATE); }

H5Handle h5_group(hid_t file, Kind kind) {
  const htri_t exists = H5Lexists(file, name_of(kind), H5P_DEFAULT);
  if (check_h5(exists, "H5Lexists") > 0) {
    return H5Handle(H5Gopen2(file, name_of(kind), H5P_DEFAULT), H5Gclose, "H5Gopen2");
  }
  return H5Handle(H5Gcreate2(file, name_of(kind), H5P_DEFAULT,
                             make_timeless_options(H5P_GROUP_CREATE), H5P_DEFAULT),
                  H5Gclose, "H5Gcreate2");
}

H5Handle h5_link_options() {
  H5Handle options = make_options(H5P_LINK_CREATE);
  check_h5(H5Pset_char_encoding(options, H5T_CSET_UTF8), "H5Pset_char_encoding");
  return options;
}

// H5dont_atexit: after a failure HDF5's cleanup at exit can crash. The stdio driver is
// the one that takes a path under /proc/self/fd. The latest format checksums metadata.
H5Image::H5Image(int64_t alignment)
    : lock_(library_mutex()), memory_(make_memory_file()) {
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
  file_ = std::make_unique<H5Handle>(
      H5Fcreate(memory_.path().c_str(), H5F_ACC_TRUNC,
                make_timeless_options(H5P_FILE_CREATE), access),
      H5Fclose, "H5Fcreate");
}

H5Image::~H5Image() {
  file_.reset();
  H5Eset_auto2(H5E_DEFAULT, print_errors_, print_errors_to_);
}

File H5Image::finish() {
  file_->close();
  return std::move(memory_);
}

}  // namespace zero::checkpoint
