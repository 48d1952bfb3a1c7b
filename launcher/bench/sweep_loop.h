#pragma once
#include <bit>
#include <cstdint>

#include "launcher/bench/sweep.h"

namespace zero::launcher {

// The loop behind sweep(), over elements [begin, end): forced inline, so that it takes on
// the caller's instruction set. `no_bits` is 0, which the compiler must not know: else it
// would write nothing back.
template <bool kWithCopy>
[[gnu::always_inline]] inline void sweep_loop(const SweptArrays& arrays, int64_t begin,
                                              int64_t end, uint32_t no_bits) {
  const float* __restrict grad = arrays.grad;
  float* __restrict master = arrays.master;
  float* __restrict exp_avg = arrays.exp_avg;
  float* __restrict exp_avg_sq = arrays.exp_avg_sq;
  uint16_t* __restrict copy = arrays.copy;
  for (int64_t i = begin; i < end; ++i) {
    const uint32_t mask = std::bit_cast<uint32_t>(grad[i]) & no_bits;
    const uint32_t bits = std::bit_cast<uint32_t>(master[i]) ^ mask;
    exp_avg[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(exp_avg[i]) ^ mask);
    exp_avg_sq[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(exp_avg_sq[i]) ^ mask);
    master[i] = std::bit_cast<float>(bits);
    if constexpr (kWithCopy) copy[i] = static_cast<uint16_t>(bits >> 16);
  }
}

[[gnu::always_inline]] inline void sweep_range(const SweptArrays& arrays, int64_t begin,
                                               int64_t end, uint32_t no_bits) {
  if (arrays.copy) return sweep_loop<true>(arrays, begin, end, no_bits);
  sweep_loop<false>(arrays, begin, end, no_bits);
}

using SweepRange = void (*)(const SweptArrays& arrays, int64_t begin, int64_t end,
                            uint32_t no_bits);

// The version for the best instruction set that this CPU has; the build picks the file.
SweepRange fastest_sweep();

}  // namespace zero::launcher
