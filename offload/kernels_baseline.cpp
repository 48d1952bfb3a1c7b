#include "base/dtype.h"
#include "offload/kernels.h"
#include "offload/leaf_loop.h"
#include "offload/random_loop.h"
#include "offload/sweep_loop.h"
#include "offload/update_loop.h"

namespace zero {
namespace {

struct Baseline {
  static void to_fp16(const float* __restrict from, uint16_t* __restrict to, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] = float_to_fp16(from[i]);
  }
  template <class Rule>
  static void update(const UpdatePiece& piece, const Rule& rule) {
    update_piece(piece, rule, to_fp16);
  }
  static void sweep(const UpdatePiece& piece, uint32_t no_bits) {
    sweep_piece(piece, no_bits);
  }
  static void leaf_squares(const float* values, int64_t num_leaves, double* sums) {
    zero::leaf_squares(values, num_leaves, sums);
  }
  static void words(uint64_t key, int64_t first, uint32_t* words) {
    random_words(key, first, words);
  }
  template <class Kind>
  static void fill(const Kind& draw, uint64_t key, int64_t begin,
                   std::span<float> values) {
    fill_loop(draw, key, begin, values, words);
  }
};

}  // namespace

Kernels baseline_kernels() { return kernels_of<Baseline>("baseline"); }

}  // namespace zero
