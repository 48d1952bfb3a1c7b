#include "offload/kernels.h"
#include "offload/leaf_loop.h"
#include "offload/sweep_loop.h"
#include "offload/update_loop.h"

#define ZERO_AVX512 "avx512f,avx512bw,avx512dq,avx512vl"

namespace zero {
namespace {

template <class Rule>
[[gnu::target("avx2")]] void update_avx2(const UpdatePiece& piece, const Rule& rule) {
  update_piece(piece, rule);
}
[[gnu::target("avx2")]] void sweep_avx2(const UpdatePiece& piece, uint32_t no_bits) {
  sweep_piece(piece, no_bits);
}
[[gnu::target("avx2")]] void squares_avx2(const float* values, int64_t num_leaves,
                                          double* sums) {
  leaf_squares(values, num_leaves, sums);
}

template <class Rule>
[[gnu::target(ZERO_AVX512)]] void update_avx512(const UpdatePiece& piece,
                                                const Rule& rule) {
  update_piece(piece, rule);
}
[[gnu::target(ZERO_AVX512)]] void sweep_avx512(const UpdatePiece& piece,
                                               uint32_t no_bits) {
  sweep_piece(piece, no_bits);
}
[[gnu::target(ZERO_AVX512)]] void squares_avx512(const float* values, int64_t num_leaves,
                                                 double* sums) {
  leaf_squares(values, num_leaves, sums);
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

std::vector<Kernels> kernels() {
  std::vector<Kernels> all{baseline_kernels()};
  if (__builtin_cpu_supports("avx2"))
    all.push_back({"avx2",
                   {update_avx2, update_avx2, update_avx2, update_avx2},
                   sweep_avx2,
                   squares_avx2});
  if (has_avx512())
    all.push_back({"avx512",
                   {update_avx512, update_avx512, update_avx512, update_avx512},
                   sweep_avx512,
                   squares_avx512});
  return all;
}

}  // namespace zero
