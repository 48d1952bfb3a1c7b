#pragma once
#include <cstdint>
#include <memory>

#include "engine/device/device.h"

namespace zero {

struct GpuOptions {
  uint64_t chaos_seed = 0;  // as HostDeviceOptions: late workers, NaN in released memory
};

// The GPUs that this process can use: 0 where the machine has none, or where
// CUDA_VISIBLE_DEVICES hides them. Throws Error(kEnvironment) with the cure where there
// is one that cannot be used: its driver, its architecture, a library that is missing.
// Looks once; after a failure again.
int num_gpus();

// Which tensors compute with a GPU's memory; on a real one CUDA's.
DeviceKind kind_of_gpus();

// GPU `index` of those. Throws Error(kEnvironment) where there is none.
std::unique_ptr<Device> make_gpu(int index, const GpuOptions& options = {});

}  // namespace zero
