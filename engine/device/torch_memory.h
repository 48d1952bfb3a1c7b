#pragma once
#include <cstdint>

namespace zero {

// Let LibTorch allocate so many bytes on GPU `index` and no more: it throws
// c10::OutOfMemoryError then. For the whole process.
void limit_torch_memory(int index, int64_t bytes);
void unlimit_torch_memory(int index) noexcept;

}  // namespace zero

// What libzero_cuda.so offers for it: a fraction of the GPU's memory.
extern "C" void zero_limit_torch_memory(int index, double fraction);
