#pragma once

#include "offload/kernels.h"
#include "offload/leaf_loop.h"
#include "offload/random_loop.h"
#include "offload/sweep_loop.h"
#include "offload/update_loop.h"

namespace zero {

#define ZERO_LOOP [&]() __attribute__((always_inline))

// The loops, each called by Set::run(loop), which has the instruction set.
template <class Set>
Kernels kernels_of(const char* isa) {
  return {
      .isa = isa,
      .update =
          [](const UpdatePiece& piece, const UpdateRule& rule) {
            const auto update = [&](const auto& each) {
              Set::run(ZERO_LOOP { update_piece(piece, each, Set::to_fp16); });
            };
            std::visit(update, rule);
          },
      .sweep =
          [](const UpdatePiece& piece, uint32_t no_bits) {
            Set::run(ZERO_LOOP { sweep_piece(piece, no_bits); });
          },
      .leaf_squares =
          [](const float* values, int64_t num_leaves, double* sums) {
            Set::run(ZERO_LOOP { leaf_squares(values, num_leaves, sums); });
          },
      .to_fp16 = Set::to_fp16,
      .fill =
          [](const Draw& draw, uint64_t key, int64_t begin, std::span<float> values) {
            const auto fill = [&](const auto& each) {
              Set::run(ZERO_LOOP { fill_loop(each, key, begin, values, Set::words); });
            };
            std::visit(fill, draw);
          }};
}

#undef ZERO_LOOP

}  // namespace zero
