#include "engine/step/shard_kernels.h"

#include "engine/device/gpu.h"

namespace zero {

std::unique_ptr<ShardKernels> make_shard_kernels(Device& gpu, NormType norm) {
  auto* const make =
      find_in_gpu_library<decltype(zero_make_shard_kernels)>("zero_make_shard_kernels");
  return std::unique_ptr<ShardKernels>(make(gpu, norm));
}

}  // namespace zero
