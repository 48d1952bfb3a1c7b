#pragma once

#include <cmath>
#include <cstdint>

#include "offload/bf16.h"
#include "offload/cpu_adam.h"

namespace zero {

// The loop behind Kernels::adam: forced inline, so that it takes on the caller's
// instruction set. Nothing here may depend on that set; compile with -ffp-contract=off.

[[gnu::always_inline]] inline float grad_to_float(float grad) { return grad; }
[[gnu::always_inline]] inline float grad_to_float(uint16_t grad) {
  return bf16_to_float(grad);
}

template <bool kWithCopy, typename Grad>
[[gnu::always_inline]] inline void adam_loop(const Grad* __restrict grad,
                                             const AdamPiece& piece,
                                             const AdamScalars& s) {
  float* __restrict master = piece.master;
  float* __restrict exp_avg = piece.exp_avg;
  float* __restrict exp_avg_sq = piece.exp_avg_sq;
  uint16_t* __restrict copy = piece.copy_bf16;
  const auto [grad_factor, decay, beta1, one_minus_beta1, beta2, one_minus_beta2,
              step_size, sqrt_bc2, eps] = s;
  const int64_t numel = piece.numel;

  for (int64_t i = 0; i < numel; ++i) {
    const float g = grad_to_float(grad[i]) * grad_factor;
    const float m = exp_avg[i] * beta1 + g * one_minus_beta1;
    const float v = exp_avg_sq[i] * beta2 + (g * g) * one_minus_beta2;
    const float d = std::sqrt(v) / sqrt_bc2 + eps;
    const float quotient = step_size * m / d;
    const float update = d == 0.0f ? 0.0f : quotient;  // a select: it vectorises
    const float p = master[i] * decay - update;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    master[i] = p;
    if constexpr (kWithCopy) copy[i] = float_to_bf16(p);
  }
}

[[gnu::always_inline]] inline void adam_sweep(const AdamPiece& piece,
                                              const AdamScalars& s) {
  if (piece.grad && piece.copy_bf16) return adam_loop<true>(piece.grad, piece, s);
  if (piece.grad) return adam_loop<false>(piece.grad, piece, s);
  if (piece.copy_bf16) return adam_loop<true>(piece.grad_bf16, piece, s);
  return adam_loop<false>(piece.grad_bf16, piece, s);
}

}  // namespace zero
