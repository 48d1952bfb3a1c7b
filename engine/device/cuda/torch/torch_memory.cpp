// A part of libzero_cuda.so: it knows LibTorch's allocator on GPUs.
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>

#include "engine/device/gpu.h"

void zero_limit_torch_memory(int index, double fraction) {
  c10::cuda::CUDACachingAllocator::init(static_cast<int>(c10::cuda::device_count()));
  c10::cuda::CUDACachingAllocator::setMemoryFraction(
      fraction, static_cast<c10::DeviceIndex>(index));
}

void zero_let_torch_memory_grow() {
  c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
}

void zero_release_torch_memory() { c10::cuda::CUDACachingAllocator::emptyCache(); }

zero::TorchMemory zero_peak_torch_memory() {
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  zero::TorchMemory peak;
  for (c10::DeviceIndex i = 0; i < c10::cuda::device_count(); ++i) {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(i);
    peak.tensors = std::max(peak.tensors, stats.allocated_bytes[kAll].peak);
    peak.reserved = std::max(peak.reserved, stats.reserved_bytes[kAll].peak);
  }
  return peak;
}
