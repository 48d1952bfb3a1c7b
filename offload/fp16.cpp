#include "offload/fp16.h"

#include "offload/kernels.h"

namespace zero {

void convert_to_fp16(const float* from, uint16_t* to, int64_t n) {
  fastest_kernels().to_fp16(from, to, n);
}

}  // namespace zero
