#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/no_copy.h"

namespace zero {

// Host memory that could not be had; the text tells who asked, how much, and the cure.
class HostMemoryError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Own one anonymous mapping of exact size, and deal it out in named pieces.
//
// Every piece starts on a 64-byte boundary and is zero at first. Nothing is given back
// before the arena ends, so an arena whose plan is the sum of padded() over its pieces
// ends exactly full. Huge pages are advised; whether the kernel grants them changes speed
// only. Not thread-safe.
class HostArena : NoCopy {
 public:
  // Map `bytes`, rounded up to 64; memory is taken when first touched. Throws
  // HostMemoryError when the system refuses, std::invalid_argument below 0.
  HostArena(std::string name, int64_t bytes);
  ~HostArena();

  // Take the next `bytes`; a valid pointer even for 0. Throws HostMemoryError when fewer
  // are left, std::invalid_argument below 0.
  std::byte* allocate(const std::string& name, int64_t bytes);

  // The same as an array of `numel` numbers, all zero.
  template <typename T>
  T* allocate_array(const std::string& name, int64_t numel) {
    return reinterpret_cast<T*>(allocate(name, bytes_of(name, numel, sizeof(T))));
  }

  const std::string& name() const { return name_; }
  std::byte* data() const { return data_; }
  int64_t capacity_bytes() const { return capacity_bytes_; }
  int64_t used_bytes() const { return used_bytes_; }

  // What an allocation of `bytes` takes out of an arena: rounded up to 64.
  static int64_t padded(int64_t bytes);

 private:
  int64_t bytes_of(const std::string& name, int64_t numel, int64_t bytes_each) const;

  std::string name_;
  int64_t capacity_bytes_;
  int64_t mapped_bytes_;
  std::byte* data_;
  int64_t used_bytes_ = 0;
};

// Capacity of all arenas that live in this process. Thread-safe.
int64_t live_bytes();

}  // namespace zero
