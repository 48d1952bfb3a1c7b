#include "engine/step/shard_kernels.h"

#include "engine/device/gpu.h"

namespace zero {

std::unique_ptr<ShardKernels> make_shard_kernels(Device& gpu, NormType norm) {
  const auto make = reinterpret_cast<decltype(&zero_make_shard_kernels)>(
      find_in_gpu_library("zero_make_shard_kernels"));
  return std::unique_ptr<ShardKernels>(make(gpu, norm));
}

}  // namespace zero
