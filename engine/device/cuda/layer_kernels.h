#pragma once
#include "engine/device/cuda/cross_entropy_kernels.h"
#include "engine/device/cuda/each_element.h"
#include "engine/device/cuda/norm_kernels.h"
#include "engine/device/cuda/rotate_kernel.h"
#include "engine/layers/gpu_passes.h"

namespace zero {

// All passes, by who queues a kernel: Launcher::launch(kernel, stream).
template <class Launcher>
GpuPasses gpu_passes_of() {
  const auto all = []<class... Passes>(std::type_identity<QueuePasses<Passes...>>) {
    return GpuPasses{{+[](const Passes& pass, int64_t numel, void* stream) {
      if (numel > 0) Launcher::launch(Kernel<Passes>{pass, numel}, stream);
    }...}};
  };
  return all(std::type_identity<GpuPasses::Queues>());
}

}  // namespace zero
