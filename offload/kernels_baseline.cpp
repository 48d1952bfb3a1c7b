#include "base/dtype.h"
#include "offload/kernels.h"
#include "offload/leaf_loop.h"
#include "offload/random_loop.h"
#include "offload/sweep_loop.h"
#include "offload/update_loop.h"

namespace zero {
namespace {

void to_fp16_baseline(const float* __restrict from, uint16_t* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = float_to_fp16(from[i]);
}
template <class Rule>
void update_baseline(const UpdatePiece& piece, const Rule& rule) {
  update_piece(piece, rule, to_fp16_baseline);
}
void sweep_baseline(const UpdatePiece& piece, uint32_t no_bits) {
  sweep_piece(piece, no_bits);
}
void squares_baseline(const float* values, int64_t num_leaves, double* sums) {
  leaf_squares(values, num_leaves, sums);
}
void random_words_baseline(uint64_t key, int64_t first, uint32_t* words) {
  random_words(key, first, words);
}
template <class Kind>
void fill_baseline(const Kind& draw, uint64_t key, int64_t begin,
                   std::span<float> values) {
  fill_loop(draw, key, begin, values, random_words_baseline);
}

}  // namespace

Kernels baseline_kernels() {
  return {"baseline",
          {update_baseline, update_baseline, update_baseline, update_baseline},
          sweep_baseline,
          squares_baseline,
          to_fp16_baseline,
          {fill_baseline, fill_baseline, fill_baseline}};
}

}  // namespace zero
