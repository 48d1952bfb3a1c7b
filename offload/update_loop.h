#pragma once

#include <cstdint>

#include "offload/bf16.h"
#include "offload/update.h"

namespace zero {

// The loop behind Kernels::updates, for any rule: forced inline, so that it takes on the
// caller's instruction set. Nothing here may depend on that set; compile with
// -ffp-contract=off.

[[gnu::always_inline]] inline float grad_to_float(float grad) { return grad; }
[[gnu::always_inline]] inline float grad_to_float(uint16_t grad) {
  return bf16_to_float(grad);
}

template <bool kWithCopy, class Rule, class Grad>
[[gnu::always_inline]] inline void update_loop(const Grad* __restrict grad,
                                               const UpdatePiece& piece,
                                               const Rule& given) {
  float* __restrict master = piece.master;
  float* __restrict first = piece.state[0];
  float* __restrict second = piece.state[1];
  uint16_t* __restrict copy = piece.copy_bf16;
  const Rule rule = given;
  const int64_t numel = piece.numel;

  for (int64_t i = 0; i < numel; ++i) {
    float m = first[i], v = 0;
    if constexpr (Rule::kNumStates > 1) v = second[i];
    const float p = rule.apply(master[i], grad_to_float(grad[i]), m, v);
    first[i] = m;
    if constexpr (Rule::kNumStates > 1) second[i] = v;
    master[i] = p;
    if constexpr (kWithCopy) copy[i] = float_to_bf16(p);
  }
}

template <class Rule>
[[gnu::always_inline]] inline void update_piece(const UpdatePiece& piece,
                                                const Rule& rule) {
  if (piece.grad && piece.copy_bf16) return update_loop<true>(piece.grad, piece, rule);
  if (piece.grad) return update_loop<false>(piece.grad, piece, rule);
  if (piece.copy_bf16) return update_loop<true>(piece.grad_bf16, piece, rule);
  return update_loop<false>(piece.grad_bf16, piece, rule);
}

}  // namespace zero
