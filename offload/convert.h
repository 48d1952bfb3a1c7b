#pragma once

#include <cstdint>

namespace zero {

// float_to_bf16() and float_to_fp16() over arrays of `n` elements that do not overlap; on
// the calling thread.
void convert_to_bf16(const float* from, uint16_t* to, int64_t n);
void convert_to_fp16(const float* from, uint16_t* to, int64_t n);

}  // namespace zero
