#pragma once
#include <cstdint>
#include <span>

#include "base/dtype.h"

// What transports do with memory of the host.
namespace zero {

// Copy memory, for data that another core reads next.
//
// Plain stores into lines that a reader's cache still holds cost 5 times as much: each
// has to be taken back from that core first. `to` must be 16-byte aligned. Visible to
// other threads after the caller's next release.
void copy_past_caches(void* to, const void* from, int64_t bytes);

// out (numel) fp32 = sum of the sources (numel each, of `type`: kFp32 or kBf16) in
// adjacent-pair tree order, ((0+1)+(2+3))+4.
//
// One pass over memory. `out` may be one of the sources.
void tree_sum(std::span<const void* const> sources, DType type, float* out,
              int64_t numel);

}  // namespace zero
