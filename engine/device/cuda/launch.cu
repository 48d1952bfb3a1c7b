#include "engine/device/cuda/launch.h"

#include <algorithm>

#include "engine/device/cuda/cuda_stream.h"

namespace zero {
namespace {

constexpr int kThreads = 256;            // of a block
constexpr int64_t kMaxBlocks = 1 << 16;  // beyond that each thread does more
// Where each ends in one place for all, there are fewer; as many as fill any GPU of
// today.
constexpr int64_t kMaxReducingBlocks = 1024;
constexpr int kLeafThreads = 128;  // each has a column of limbs: 24 KiB a block

template <int kBlockThreads, class Kernel>
__device__ void run_own_share(Kernel& kernel, bool takes_groups) {
  const int64_t thread = int64_t{blockIdx.x} * kBlockThreads + threadIdx.x;
  run_share(kernel, takes_groups, thread, int64_t{gridDim.x} * kBlockThreads);
}

__global__ void __launch_bounds__(kMostLeft) run_at_once(Decode kernel) {
  const int thread = static_cast<int>(threadIdx.x);
  Group<float, 1> value = {};
  if (thread < kernel.numel) value = kernel.read<1>(thread);
  __syncthreads();
  if (thread < kernel.numel) kernel.to.write(thread, value);
}

// What a thread found joins what all others find.
__device__ void join_found(const Elementwise&) {}
__device__ void join_found(const MaxAbs& kernel) {
  const unsigned largest = __reduce_max_sync(~0u, kernel.found);
  if (threadIdx.x % 32 == 0)
    atomicMax(reinterpret_cast<unsigned*>(kernel.largest), largest);
}
// Integers: any order of additions gives the same sum, here and below.
__device__ void join_found(const HashSum& kernel) {
  auto found = static_cast<unsigned long long>(kernel.found);
  for (int half = 16; half > 0; half /= 2) found += __shfl_down_sync(~0u, found, half);
  if (threadIdx.x % 32 == 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(kernel.sum), found);
}

template <class Kernel>
__global__ void __launch_bounds__(kThreads) run_kernel(Kernel kernel, bool takes_groups) {
  run_own_share<kThreads>(kernel, takes_groups);
  join_found(kernel);
}

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

template <class Kernel>
void queue(const Kernel& kernel, bool takes_groups, cudaStream_t stream) {
  // Groups, and the elements that they leave over.
  const int64_t items = takes_groups ? kernel.numel / kGroup + 1 : kernel.numel;
  const int64_t max_blocks = Kernel::kIsReduced ? kMaxReducingBlocks : kMaxBlocks;
  const int blocks = num_blocks(items, kThreads, max_blocks);
  run_kernel<<<blocks, kThreads, 0, stream>>>(kernel, takes_groups);
}
void queue(const LeafSums& kernel, bool takes_groups, cudaStream_t stream) {
  const int blocks = num_blocks(kernel.num_leaves(), kLeafThreads, kMaxReducingBlocks);
  run_leaves<<<blocks, kLeafThreads, 0, stream>>>(kernel, takes_groups);
}

void check_launch(const char* kernel) {
  check_cuda(cudaGetLastError(), std::string("launching ") + kernel);
}

}  // namespace

template <class Kernel>
void launch(const Kernel& kernel, cudaStream_t stream) {
  queue(kernel, can_take_groups(kernel), stream);
  check_launch(Kernel::kName);
}
template void launch(const TreeSum& kernel, cudaStream_t stream);
template void launch(const Cast& kernel, cudaStream_t stream);
template void launch(const Decode& kernel, cudaStream_t stream);
template void launch(const Sum& kernel, cudaStream_t stream);
template void launch(const AdamW& kernel, cudaStream_t stream);
template void launch(const LeafSums& kernel, cudaStream_t stream);
template void launch(const MaxAbs& kernel, cudaStream_t stream);
template void launch(const HashSum& kernel, cudaStream_t stream);

void launch_at_once(const Decode& kernel, cudaStream_t stream) {
  run_at_once<<<1, kMostLeft, 0, stream>>>(kernel);
  check_launch(Decode::kName);
}

}  // namespace zero
