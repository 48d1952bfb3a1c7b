// A part of libzero_cuda.so: it knows LibTorch's allocator on GPUs.
#include <c10/cuda/CUDACachingAllocator.h>

#include "engine/device/gpu.h"

void zero_limit_torch_memory(int index, double fraction) {
  c10::cuda::CUDACachingAllocator::init(static_cast<int>(c10::cuda::device_count()));
  c10::cuda::CUDACachingAllocator::setMemoryFraction(
      fraction, static_cast<c10::DeviceIndex>(index));
}
