#pragma once
#include <cstdint>
#include <string>

namespace zero {

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

}  // namespace zero
