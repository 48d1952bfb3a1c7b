#pragma once

#include <cstdint>

#include "base/dtype.h"

// Floating-point values of any width in a file, fp32 in memory.
namespace zero {

bool is_floating(DType dtype);  // kFp64, kFp32, kBf16, kFp16: what the others work on

// Convert `n` values, which lie as in a file, to fp32: exactly, fp64 rounded to nearest.
void widen(DType dtype, const char* from, int64_t n, float* to);

// Convert `n` values to what lies in a file: rounded to nearest, ties to even; what is
// too large becomes infinite, every NaN one and the same.
void narrow(const float* from, int64_t n, DType dtype, char* to);

}  // namespace zero
