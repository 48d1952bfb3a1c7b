#pragma once

#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <utility>

#include "base/dtype.h"
#include "checkpoint/tensor.h"

// HDF5's C library, checked: for the sources of this room alone.
namespace zero::checkpoint {

// Throw CheckpointError with HDF5's own error stack when `result` is negative.
int64_t check_h5(int64_t result, const char* call);

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

// Have the library for oneself: not every build of HDF5 is thread-safe. It prints nothing
// meanwhile. Every call of it, those that close something too, is made while one lives.
class H5Turn {
 public:
  H5Turn();
  ~H5Turn();
  H5Turn(H5Turn&&) = delete;

 private:
  std::lock_guard<std::mutex> lock_;
  H5E_auto2_t print_errors_ = nullptr;
  void* print_errors_to_ = nullptr;
};

H5Handle make_options(hid_t kind);

// Of a file that is opened: HDF5's 32 MiB of metadata on the disk are 500 MiB in memory.
void keep_little(hid_t access);

H5Handle make_space(const Shape& shape);
void select(hid_t space, const Box& box);  // of its elements, this block alone

H5Handle copy_type(hid_t type);

// What the values of ours are to HDF5.
H5Handle make_type(DType dtype);

}  // namespace zero::checkpoint
