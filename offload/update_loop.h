#pragma once

#include <cstdint>

#include "offload/bf16.h"
#include "offload/stored_values.h"
#include "offload/update.h"

namespace zero {

// The loop behind Kernels::updates, for any rule: forced inline, so that it takes on the
// caller's instruction set. Nothing here may depend on that set; compile with
// -ffp-contract=off.

enum class MasterKind { kPlain, kWithCopy, kSplit };

[[gnu::always_inline]] inline float load(float value) { return value; }
[[gnu::always_inline]] inline float load(uint16_t bf16) { return bf16_to_float(bf16); }
[[gnu::always_inline]] inline void store(float value, float& to) { to = value; }
[[gnu::always_inline]] inline void store(float value, uint16_t& to) {
  to = float_to_bf16(value);
}

template <MasterKind kMaster, class Rule, class Grad, class State>
[[gnu::always_inline]] inline void update_loop(const UpdatePiece& piece,
                                               const Grad* __restrict grad,
                                               State* const* states, const Rule& given) {
  float* __restrict master = piece.master;
  uint16_t* __restrict low = piece.master_low;
  uint16_t* __restrict copy = piece.copy_bf16;
  State* __restrict first = states[0];
  State* __restrict second = states[1];
  const Rule rule = given;
  const int64_t numel = piece.numel;

  for (int64_t i = 0; i < numel; ++i) {
    float m = load(first[i]), v = 0, p;
    if constexpr (Rule::kNumStates > 1) v = load(second[i]);
    if constexpr (kMaster == MasterKind::kSplit)
      p = join_float(copy[i], low[i]);
    else
      p = master[i];
    p = rule.apply(p, load(grad[i]), m, v);
    store(m, first[i]);
    if constexpr (Rule::kNumStates > 1) store(v, second[i]);
    if constexpr (kMaster == MasterKind::kSplit) {
      const SplitFloat halves = split_float(p);
      copy[i] = halves.high;
      low[i] = halves.low;
    } else {
      master[i] = p;
      if constexpr (kMaster == MasterKind::kWithCopy) copy[i] = float_to_bf16(p);
    }
  }
}

template <class Rule, class Grad, class State>
[[gnu::always_inline]] inline void update_with(const UpdatePiece& piece, const Grad* grad,
                                               State* const* states, const Rule& rule) {
  if (piece.master_low) return update_loop<MasterKind::kSplit>(piece, grad, states, rule);
  if (piece.copy_bf16)
    return update_loop<MasterKind::kWithCopy>(piece, grad, states, rule);
  update_loop<MasterKind::kPlain>(piece, grad, states, rule);
}

template <class Rule>
[[gnu::always_inline]] inline void update_piece(const UpdatePiece& piece,
                                                const Rule& rule) {
  if (piece.state_bf16[0]) {
    if (piece.grad) return update_with(piece, piece.grad, piece.state_bf16, rule);
    return update_with(piece, piece.grad_bf16, piece.state_bf16, rule);
  }
  if (piece.grad) return update_with(piece, piece.grad, piece.state, rule);
  update_with(piece, piece.grad_bf16, piece.state, rule);
}

}  // namespace zero
