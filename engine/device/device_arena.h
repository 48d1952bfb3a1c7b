#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "engine/device/device.h"

namespace zero {

// Own one block of a device's memory, and deal it out, as HostArena does with the host's:
// every piece starts on a boundary of 256 bytes, as CUDA's own memory does, and nothing
// is given back before the arena ends. What lies in it is not set.
class DeviceArena : NoCopy {
 public:
  // Throws Error(kEnvironment), as Device::allocate().
  DeviceArena(Device& device, const std::string& name, int64_t bytes)
      : device_(device),
        memory_(static_cast<std::byte*>(device.allocate(name, bytes))),
        next_(memory_),
        end_(memory_ + bytes) {}
  ~DeviceArena() { device_.free(memory_); }

  std::byte* allocate(int64_t bytes) {
    constexpr int64_t kBoundary = 256;
    bytes = (bytes + kBoundary - 1) / kBoundary * kBoundary;
    assert(bytes <= end_ - next_);
    return std::exchange(next_, next_ + bytes);
  }
  std::byte* data() const { return memory_; }

 private:
  Device& device_;
  std::byte* const memory_;
  std::byte* next_;
  std::byte* const end_;
};

}  // namespace zero
