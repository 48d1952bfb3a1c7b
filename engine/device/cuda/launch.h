#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/device/cuda/elements.h"
#include "offload/decode.h"

namespace zero {

// Queue a kernel: on a GPU in launch.cu, on one made of threads in tests/standin. It has
// something to do. Throws Error(kEnvironment) when that cannot be queued.
template <class Kernel>
void launch(const Kernel& kernel, cudaStream_t stream);

// Of kMostLeft elements at most: all are read before one is written.
void launch_at_once(const Decode& kernel, cudaStream_t stream);

// A thread mostly has one item: for each loop that it unrolled, the compiler would divide
// 64-bit numbers first.
#ifdef __CUDA_ARCH__
#define ZERO_SHORT_LOOP _Pragma("unroll 1")
#else
#define ZERO_SHORT_LOOP
#endif

// What one of `num_threads` threads does of a kernel, which is its own copy: groups, then
// what they leave over.
template <class Kernel>
ZERO_HOST_DEVICE void run_share(Kernel& kernel, bool takes_groups, int64_t thread,
                                int64_t num_threads) {
  const int64_t grouped = takes_groups ? kernel.numel / kGroup * kGroup : 0;
  ZERO_SHORT_LOOP
  for (int64_t i = thread * kGroup; i < grouped; i += num_threads * kGroup)
    kernel.template run<kGroup>(i);
  ZERO_SHORT_LOOP
  for (int64_t i = grouped + thread; i < kernel.numel; i += num_threads)
    kernel.template run<1>(i);
}

// The same of leaves, each of which is one thread's.
ZERO_HOST_DEVICE void run_share(LeafSums& kernel, bool takes_groups, int64_t thread,
                                int64_t num_threads) {
  ZERO_SHORT_LOOP
  for (int64_t leaf = thread; leaf < kernel.num_leaves(); leaf += num_threads) {
    if (takes_groups)
      kernel.run<kGroup>(leaf);
    else
      kernel.run<1>(leaf);
  }
}

}  // namespace zero
