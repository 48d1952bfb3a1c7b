#pragma once
#include <memory>

#include "engine/device/gpu.h"

namespace zero {

// How many GPUs this process sees. Throws Error(kEnvironment) if CUDA cannot use them.
int count_cuda_devices();

// "GPU-" and its UUID.
std::string identity_of_cuda_device(int index);

GpuMemory memory_of_cuda_device(int index);

int numa_node_of_cuda_device(int index);

std::string describe_cuda_device(int index);

// GPU `index` of those. Its compute stream is CUDA's default stream, which is also
// LibTorch's; the others run beside it.
//
// Its streams wait for each other without the host, and for a worker's event in a
// callback of the driver. What fails in a worker they wait for fails the whole GPU, as a
// kernel's error does: whoever waits for any later point of any of its streams gets it.
// What is queued meanwhile still runs, on what is there.
std::unique_ptr<Device> make_cuda_device(int index, const GpuOptions& options);

}  // namespace zero
