#include "offload/convert.h"

#include "base/dtype.h"
#include "offload/kernels.h"

namespace zero {

void convert_to_bf16(const float* __restrict from, uint16_t* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = float_to_bf16(from[i]);
}

void convert_to_fp16(const float* from, uint16_t* to, int64_t n) {
  fastest_kernels().to_fp16(from, to, n);
}

}  // namespace zero
