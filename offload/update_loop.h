#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "base/host_device.h"
#include "offload/kernels.h"
#include "offload/stored_values.h"
#include "offload/update.h"

namespace zero {

// The loop behind Kernels::updates, for any rule: forced inline, so that it takes on the
// caller's instruction set. Nothing here may depend on that set; compile with
// -ffp-contract=off. A GPU goes over pieces in its own way, and does
// the same to each element.

enum class MasterKind { kPlain, kWithCopy, kSplit };

// What a step does to element i of these arrays. Of an array that the kind of master or
// the rule does without, nothing is read.
template <MasterKind kMaster, class Rule, class Grad, class State>
ZERO_HOST_DEVICE void update_element(const Rule& rule, const Grad* grad, float* master,
                                     uint16_t* low, uint16_t* copy, State* first,
                                     State* second, int64_t i) {
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

// How the host goes over a piece.
struct WholePiece {
  template <MasterKind kMaster, class Rule, class Grad, class State>
  [[gnu::always_inline]] void run(const UpdatePiece& piece, const Grad* __restrict grad,
                                  State* const* states, const Rule& given) const {
    float* __restrict master = piece.master;
    uint16_t* __restrict low = piece.master_low;
    uint16_t* __restrict copy = piece.copy_bf16;
    State* __restrict first = states[0];
    State* __restrict second = states[1];
    const Rule rule = given;
    const int64_t numel = piece.numel;

    for (int64_t i = 0; i < numel; ++i)
      update_element<kMaster>(rule, grad, master, low, copy, first, second, i);
  }
};

template <class Loop, class Rule, class Grad, class State>
ZERO_HOST_DEVICE void update_with(const UpdatePiece& piece, const Grad* grad,
                                  State* const* states, const Rule& rule,
                                  const Loop& loop) {
  if (piece.master_low)
    return loop.template run<MasterKind::kSplit>(piece, grad, states, rule);
  if (piece.copy_bf16)
    return loop.template run<MasterKind::kWithCopy>(piece, grad, states, rule);
  loop.template run<MasterKind::kPlain>(piece, grad, states, rule);
}

// Let `loop` run over a piece, knowing which arrays it has; copy_fp16 apart.
template <class Rule, class Loop = WholePiece>
ZERO_HOST_DEVICE void update_values(const UpdatePiece& piece, const Rule& rule,
                                    const Loop& loop = {}) {
  if (piece.state_bf16[0]) {
    if (piece.grad) return update_with(piece, piece.grad, piece.state_bf16, rule, loop);
    return update_with(piece, piece.grad_bf16, piece.state_bf16, rule, loop);
  }
  if (piece.grad) return update_with(piece, piece.grad, piece.state, rule, loop);
  update_with(piece, piece.grad_bf16, piece.state, rule, loop);
}

// Few enough that the masters are in the first-level cache still when they are rounded to
// fp16, for which compilers make no good loop of their own.
inline constexpr int64_t kFp16Block = 1024;

template <class Rule>
[[gnu::always_inline]] inline void update_piece(const UpdatePiece& piece,
                                                const Rule& rule, ToFp16* to_fp16) {
  if (!piece.copy_fp16) return update_values(piece, rule);
  for (int64_t begin = 0; begin < piece.numel; begin += kFp16Block) {
    const UpdatePiece block =
        part_of(piece, begin, std::min(begin + kFp16Block, piece.numel));
    update_values(block, rule);
    to_fp16(block.master, block.copy_fp16, block.numel);
  }
}

}  // namespace zero
