#include "engine/step/shard_kernels.h"

#include "engine/device/gpu.h"

namespace zero {

std::unique_ptr<ShardKernels> make_shard_kernels(Device& gpu, NormType norm,
                                                 int64_t num_movements) {
  auto* const make =
      find_in_gpu_library<decltype(zero_make_shard_kernels)>("zero_make_shard_kernels");
  return std::unique_ptr<ShardKernels>(make(gpu, norm, num_movements));
}

}  // namespace zero
