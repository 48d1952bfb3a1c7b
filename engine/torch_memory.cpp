#include "engine/torch_memory.h"

#include <algorithm>

#include "engine/device/gpu.h"

namespace zero {

void limit_torch_memory(int index, int64_t bytes) {
  const auto limit = reinterpret_cast<decltype(&zero_limit_torch_memory)>(
      find_in_gpu_library("zero_limit_torch_memory"));
  const auto total = static_cast<double>(memory_of_gpu(index).total);
  limit(index, std::clamp(static_cast<double>(bytes) / total, 0.0, 1.0));
}

}  // namespace zero
