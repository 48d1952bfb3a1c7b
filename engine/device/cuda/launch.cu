#include <algorithm>

#include "engine/device/cuda/cuda_check.h"
#include "engine/device/cuda/launch.h"

namespace zero {
namespace {

constexpr int kThreads = 256;            // of a block
constexpr int64_t kMaxBlocks = 1 << 16;  // beyond that each thread does more
// Blocks of sums have more to do at their end, and a column of limbs for each thread:
// 24 KiB.
constexpr int kLeafThreads = 128;
constexpr int64_t kMaxLeafBlocks = 1024;

template <int kBlockThreads, class Kernel>
__device__ void run_own_share(Kernel& kernel, bool takes_groups) {
  const int64_t thread = int64_t{blockIdx.x} * kBlockThreads + threadIdx.x;
  run_share(kernel, takes_groups, thread, int64_t{gridDim.x} * kBlockThreads);
}

template <class Kernel>
__global__ void __launch_bounds__(kThreads) run_kernel(Kernel kernel, bool takes_groups) {
  run_own_share<kThreads>(kernel, takes_groups);
}

__global__ void __launch_bounds__(kThreads) run_max(MaxAbs kernel, bool takes_groups) {
  run_own_share<kThreads>(kernel, takes_groups);
  const unsigned largest = __reduce_max_sync(~0u, kernel.found);
  if (threadIdx.x % warpSize == 0)
    atomicMax(reinterpret_cast<unsigned*>(kernel.largest), largest);
}

// Integers: any order of additions gives the same sum.
__global__ void __launch_bounds__(kLeafThreads)
    run_leaves(LeafSums kernel, bool takes_groups) {
  constexpr int kNumLimbs = ExactSum::kNumLimbs;
  __shared__ int64_t limbs[kNumLimbs][kLeafThreads];
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = 0; i < kNumLimbs; ++i) limbs[i][thread] = 0;
  int64_t* const total = kernel.limbs;
  kernel.limbs = &limbs[0][thread];
  kernel.limb_stride = kLeafThreads;
  run_own_share<kLeafThreads>(kernel, takes_groups);

  for (int half = kLeafThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread >= half) continue;
    for (int i = 0; i < kNumLimbs; ++i) limbs[i][thread] += limbs[i][thread + half];
  }
  __syncthreads();
  if (thread < kNumLimbs && limbs[thread][0] != 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(total + thread),
              static_cast<unsigned long long>(limbs[thread][0]));
  }
}

int num_blocks(int64_t num_items, int64_t block_threads, int64_t max_blocks) {
  const int64_t blocks = (num_items + block_threads - 1) / block_threads;
  return static_cast<int>(std::min(blocks, max_blocks));
}

// Groups, and the elements that they leave over.
int num_blocks_of(int64_t numel, bool takes_groups) {
  return num_blocks(takes_groups ? numel / kGroup + 1 : numel, kThreads, kMaxBlocks);
}

void check_launch(const char* kernel) {
  check_cuda(cudaGetLastError(), std::string("launching ") + kernel);
}

template <class Kernel>
void launch_elements(const Kernel& kernel, const char* name, cudaStream_t stream) {
  const bool takes_groups = can_take_groups(kernel);
  const int blocks = num_blocks_of(kernel.numel, takes_groups);
  run_kernel<<<blocks, kThreads, 0, stream>>>(kernel, takes_groups);
  check_launch(name);
}

}  // namespace

void launch(const TreeSum& kernel, cudaStream_t stream) {
  launch_elements(kernel, "a sum of pieces", stream);
}
void launch(const Cast& kernel, cudaStream_t stream) {
  launch_elements(kernel, "a cast", stream);
}
void launch(const Sum& kernel, cudaStream_t stream) {
  launch_elements(kernel, "a sum", stream);
}
void launch(const Scale& kernel, cudaStream_t stream) {
  launch_elements(kernel, "a scaling", stream);
}
void launch(const AdamW& kernel, cudaStream_t stream) {
  launch_elements(kernel, "AdamW", stream);
}

void launch(const LeafSums& kernel, cudaStream_t stream) {
  const int blocks = num_blocks(kernel.num_leaves(), kLeafThreads, kMaxLeafBlocks);
  run_leaves<<<blocks, kLeafThreads, 0, stream>>>(kernel, can_take_groups(kernel));
  check_launch("a norm's sum");
}

void launch(const MaxAbs& kernel, cudaStream_t stream) {
  const bool takes_groups = can_take_groups(kernel);
  const int blocks = num_blocks_of(kernel.numel, takes_groups);
  run_max<<<blocks, kThreads, 0, stream>>>(kernel, takes_groups);
  check_launch("a largest magnitude");
}

}  // namespace zero
