#include <algorithm>

#include "engine/device/cuda/cuda_check.h"
#include "engine/device/cuda/launch.h"

namespace zero {
namespace {

constexpr int kThreads = 256;            // of a block
constexpr int64_t kMaxBlocks = 1 << 16;  // beyond that each thread does more

template <class Kernel>
__global__ void __launch_bounds__(kThreads) run_kernel(Kernel kernel, bool takes_groups) {
  const int64_t thread = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  run_share(kernel, takes_groups, thread, int64_t{gridDim.x} * kThreads);
}

int num_blocks(int64_t num_items) {
  return static_cast<int>(std::min((num_items + kThreads - 1) / kThreads, kMaxBlocks));
}

template <class Kernel>
void launch_elements(const Kernel& kernel, const char* name, cudaStream_t stream) {
  const bool takes_groups = can_take_groups(kernel);
  const int64_t num_items = takes_groups ? kernel.numel / kGroup + 1 : kernel.numel;
  run_kernel<<<num_blocks(num_items), kThreads, 0, stream>>>(kernel, takes_groups);
  check_cuda(cudaGetLastError(), std::string("launching ") + name);
}

}  // namespace

void launch(const TreeSum& kernel, cudaStream_t stream) {
  launch_elements(kernel, "a sum of pieces", stream);
}

}  // namespace zero
