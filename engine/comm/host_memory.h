#pragma once
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace zero {

// out (numel) fp32 = sum of the sources (numel each, of `type`: kFp32 or kBf16) in
// adjacent-pair tree order, ((0+1)+(2+3))+4.
//
// One pass over memory. `out` may be one of the sources.
void tree_sum(std::span<const void* const> sources, DType type, float* out,
              int64_t numel);

}  // namespace zero
