#include "engine/device/cuda/kernels.h"

#include <cassert>

#include "engine/device/cuda/launch.h"

namespace zero {
namespace {

// Which of two pointers an array has.
const float* as_fp32(const void* array, DType type) {
  assert(type == DType::kFp32 || type == DType::kBf16);
  return type == DType::kFp32 ? static_cast<const float*>(array) : nullptr;
}
const uint16_t* as_bf16(const void* array, DType type) {
  return type == DType::kBf16 ? static_cast<const uint16_t*>(array) : nullptr;
}

template <class Kernel>
void queue(const Kernel& kernel, cudaStream_t stream) {
  if (kernel.numel > 0) launch(kernel, stream);
}

}  // namespace

void queue_tree_sum(float* to, const void* pieces, DType type, int num_pieces,
                    int64_t stride, int64_t numel, cudaStream_t stream) {
  assert(num_pieces > 0);
  queue(
      TreeSum{
          {numel}, to, as_fp32(pieces, type), as_bf16(pieces, type), num_pieces, stride},
      stream);
}

}  // namespace zero
