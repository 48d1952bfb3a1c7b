#pragma once
#include <cassert>
#include <cstdint>

#include "base/host_device.h"

namespace zero {

// Neighbours in an array, read and written at once. A GPU fails where they do not begin
// at a multiple of their size; the stand-in's asserts do.
template <class T, int kNum>
struct alignas(sizeof(T) * kNum) Group {
  T values[kNum];
};

template <int kNum, class T>
ZERO_HOST_DEVICE Group<T, kNum> read_group(const T* from) {
  assert(reinterpret_cast<uintptr_t>(from) % sizeof(Group<T, kNum>) == 0);
  return *reinterpret_cast<const Group<T, kNum>*>(from);
}

template <int kNum, class T>
ZERO_HOST_DEVICE void write_group(T* to, const Group<T, kNum>& group) {
  assert(reinterpret_cast<uintptr_t>(to) % sizeof(Group<T, kNum>) == 0);
  *reinterpret_cast<Group<T, kNum>*>(to) = group;
}

// Whether all arrays of a kernel allow groups of 16 bytes: kernel.takes_groups() says
// whether its numbers do, kernel.arrays(visit) calls visit(pointer, numel) for each
// array; null: none.
template <class Kernel>
bool can_take_groups(Kernel kernel) {
  bool are_aligned = kernel.takes_groups();
  kernel.arrays([&]<class T>(const T* array, int64_t) {
    // What is larger than a group is read by its members.
    constexpr size_t bytes = sizeof(T) > 16 ? alignof(T) : 16;
    if (reinterpret_cast<uintptr_t>(array) % bytes != 0) are_aligned = false;
  });
  return are_aligned;
}

}  // namespace zero
