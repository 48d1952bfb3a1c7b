#include "engine/device/torch_memory.h"

#include <algorithm>
#include <exception>

#include "engine/device/gpu.h"

namespace zero {

namespace {

void set_fraction(int index, double fraction) {
  const auto limit = reinterpret_cast<decltype(&zero_limit_torch_memory)>(
      find_in_gpu_library("zero_limit_torch_memory"));
  limit(index, std::clamp(fraction, 0.0, 1.0));
}

}  // namespace

void limit_torch_memory(int index, int64_t bytes) {
  const auto total = static_cast<double>(memory_of_gpu(index).total);
  set_fraction(index, static_cast<double>(bytes) / total);
}

void unlimit_torch_memory(int index) noexcept {
  try {
    set_fraction(index, 1);
  } catch (const std::exception&) {
    // the GPU is gone, and with it what was limited
  }
}

}  // namespace zero
