// The way into libzero_cuda.so.
#include "engine/device/cuda/cuda_device.h"
#include "engine/device/cuda/cuda_stream.h"
#include "engine/device/gpu.h"

extern "C" const zero::GpuLibrary* zero_gpu_library() {
  static const zero::GpuLibrary library{&zero::count_cuda_devices,
                                        &zero::identity_of_cuda_device,
                                        &zero::memory_of_cuda_device,
                                        &zero::numa_node_of_cuda_device,
                                        &zero::describe_cuda_device,
                                        &zero::make_cuda_device,
                                        &zero::kNvtxRanges};
  return &library;
}
