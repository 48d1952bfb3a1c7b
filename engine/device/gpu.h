#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "engine/device/device.h"

namespace zero {

struct GpuOptions {
  uint64_t chaos_seed = 0;   // as HostDeviceOptions: late workers, NaN in released memory
  int64_t memory_limit = 0;  // bytes that may be allocated; 0: what there is
};

// Of a GPU, in bytes.
struct GpuMemory {
  int64_t free = 0, total = 0;
};

// The GPUs that this process can use: 0 where the machine has none, or where
// CUDA_VISIBLE_DEVICES hides them. Throws Error(kEnvironment) with the cure where there
// is one that cannot be used: its driver, its architecture, a library that is missing.
// Looks once; after a failure again.
int num_gpus();

// What tells GPU `index` of those from every other one in the world: "GPU-1b2c...", as
// nvidia-smi -L has it.
std::string identity_of_gpu(int index);

GpuMemory memory_of_gpu(int index);

// The number of the NUMA node of the host that it is nearest to; -1: nobody tells.
int numa_node_of_gpu(int index);

// For people: its name, and what its driver knows: "NVIDIA H100 80GB HBM3, CUDA 13.0".
std::string describe_gpu(int index);

// GPU `index` of those. Throws Error(kEnvironment) where there is none.
std::unique_ptr<Device> make_gpu(int index, const GpuOptions& options = {});

// A function of the library that knows GPUs, by its name in C; null if it has none such.
// Throws what num_gpus() throws.
void* find_in_gpu_library(const char* name);

}  // namespace zero
