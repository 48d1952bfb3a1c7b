#include "offload/bf16.h"

namespace zero {

void convert_to_bf16(const float* __restrict from, uint16_t* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = float_to_bf16(from[i]);
}

}  // namespace zero
