#pragma once

#include <hdf5.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "checkpoint/file.h"
#include "checkpoint/shape.h"
#include "checkpoint/tensor.h"

// HDF5's C library, checked. Only sources include this header.
namespace zero::checkpoint {

// Throw CheckpointError with HDF5's own error stack when `result` is negative.
int64_t check_h5(int64_t result, const char* call);

// Own an HDF5 identifier.
class H5Handle {
 public:
  using Close = herr_t (*)(hid_t);
  H5Handle(hid_t id, Close close, const char* call);
  ~H5Handle();
  H5Handle(H5Handle&& other) noexcept;
  H5Handle& operator=(H5Handle&&) = delete;

  void close();  // checked, where the destructor cannot
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  Close close_;
};

H5Handle h5_type(DType dtype);
H5Handle h5_space(const Shape& shape);
H5Handle h5_dataset_options();
H5Handle h5_group(hid_t file, Kind kind);
H5Handle h5_link_options();  // names are UTF-8

// An HDF5 file in memory, written by one thread of the process at a time.
//
// HDF5 1.10 can lose an I/O error, so it never sees the disk: it lays the file out in an
// anonymous memory file, whose parts nobody wrote cost nothing, and we copy what matters.
class H5Image {
 public:
  explicit H5Image(int64_t alignment);
  ~H5Image();

  hid_t file() const { return *file_; }
  File finish();  // close it in HDF5; every other handle has been closed

 private:
  std::lock_guard<std::mutex> lock_;  // not every build of HDF5 is thread-safe
  H5E_auto2_t print_errors_ = nullptr;
  void* print_errors_to_ = nullptr;
  File memory_;
  std::unique_ptr<H5Handle> file_;
};

}  // namespace zero::checkpoint
