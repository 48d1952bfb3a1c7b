#include "checkpoint/h5.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/text.h"
#include "checkpoint/error.h"

namespace zero::checkpoint {
namespace {

herr_t append_message(unsigned, const H5E_error2_t* error, void* text) {
  *static_cast<std::string*>(text) +=
      std::string(": ") + (error->desc ? error->desc : "");
  return 0;
}

std::mutex library_mutex;

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

}  // namespace

int64_t check_h5(int64_t result, const char* call) {
  if (result >= 0) return result;
  // The library tells of a failed system call only sometimes.
  const int error = errno;
  const bool is_known = error == EFBIG || error == ENOSPC || error == ENOMEM;
  std::string messages = is_known ? std::string(": ") + std::strerror(error) : "";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, append_message, &messages);
  throw CheckpointError("", "", text_of(call, " failed", messages),
                        is_known ? cure_of(error) : "");
}

// H5dont_atexit: after a failure HDF5's cleanup at exit can crash.
H5Turn::H5Turn() : lock_(library_mutex) {
  H5dont_atexit();
  check_h5(H5open(), "H5open");
  H5Eget_auto2(H5E_DEFAULT, &print_errors_, &print_errors_to_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

H5Turn::~H5Turn() {
  H5garbage_collect();
  H5Eset_auto2(H5E_DEFAULT, print_errors_, print_errors_to_);
}

H5Handle make_options(hid_t kind) {
  return H5Handle(H5Pcreate(kind), H5Pclose, "H5Pcreate");
}

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

H5Handle make_space(const Shape& shape) {
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  return H5Handle(
      H5Screate_simple(static_cast<int>(dims.size()), dims.data(), dims.data()), H5Sclose,
      "H5Screate_simple");
}

void select(hid_t space, const Box& box) {
  const std::vector<hsize_t> start(box.start.begin(), box.start.end()),
      count(box.count.begin(), box.count.end());
  check_h5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(),
                               nullptr),
           "H5Sselect_hyperslab");
}

H5Handle copy_type(hid_t type) { return H5Handle(H5Tcopy(type), H5Tclose, "H5Tcopy"); }

H5Handle make_type(DType dtype) {
  if (dtype == DType::kBf16) return make_half(8);
  if (dtype == DType::kFp16) return make_half(5);
  const std::map<DType, hid_t> types = {
      {DType::kFp64, H5T_IEEE_F64LE}, {DType::kFp32, H5T_IEEE_F32LE},
      {DType::kInt64, H5T_STD_I64LE}, {DType::kInt32, H5T_STD_I32LE},
      {DType::kUint8, H5T_STD_U8LE},  {DType::kBool, H5T_STD_U8LE}};
  return copy_type(types.at(dtype));
}

}  // namespace zero::checkpoint
