#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "engine/device/cuda/elements.h"

namespace zero {

// Queue a kernel: on a GPU in launch.cu, on one made of threads in tests/standin. It has
// something to do. Throws Error(kEnvironment) when that cannot be queued.
void launch(const TreeSum& kernel, cudaStream_t stream);

// Whether all arrays of a kernel allow groups.
template <class Kernel>
bool can_take_groups(Kernel kernel) {
  bool are_aligned = kernel.takes_groups();
  kernel.arrays([&](const auto* array, int64_t) {
    if (reinterpret_cast<uintptr_t>(array) % 16 != 0) are_aligned = false;
  });
  return are_aligned;
}

// What one of `num_threads` threads does of a kernel: groups, then what they leave over.
template <class Kernel>
ZERO_HOST_DEVICE void run_share(const Kernel& kernel, bool takes_groups, int64_t thread,
                                int64_t num_threads) {
  const int64_t grouped = takes_groups ? kernel.numel / kGroup * kGroup : 0;
  for (int64_t i = thread * kGroup; i < grouped; i += num_threads * kGroup)
    kernel.template run<kGroup>(i);
  for (int64_t i = grouped + thread; i < kernel.numel; i += num_threads)
    kernel.template run<1>(i);
}

}  // namespace zero
