#pragma once

#include <bit>
#include <cstdint>

#include "offload/update.h"

namespace zero {

// The loop behind Kernels::sweep: forced inline, so that it takes on the caller's
// instruction set. `no_bits` is 0, which the compiler must not know: else it would write
// nothing back.
template <bool kWithCopy>
[[gnu::always_inline]] inline void sweep_loop(const UpdatePiece& piece,
                                              uint32_t no_bits) {
  const float* __restrict grad = piece.grad;
  float* __restrict master = piece.master;
  float* __restrict exp_avg = piece.state[0];
  float* __restrict exp_avg_sq = piece.state[1];
  uint16_t* __restrict copy = piece.copy_bf16;
  const int64_t numel = piece.numel;
  for (int64_t i = 0; i < numel; ++i) {
    const uint32_t mask = std::bit_cast<uint32_t>(grad[i]) & no_bits;
    const uint32_t bits = std::bit_cast<uint32_t>(master[i]) ^ mask;
    exp_avg[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(exp_avg[i]) ^ mask);
    exp_avg_sq[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(exp_avg_sq[i]) ^ mask);
    master[i] = std::bit_cast<float>(bits);
    if constexpr (kWithCopy) copy[i] = static_cast<uint16_t>(bits >> 16);
  }
}

[[gnu::always_inline]] inline void sweep_piece(const UpdatePiece& piece,
                                               uint32_t no_bits) {
  if (piece.copy_bf16) return sweep_loop<true>(piece, no_bits);
  sweep_loop<false>(piece, no_bits);
}

}  // namespace zero
