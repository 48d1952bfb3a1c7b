#include "offload/adam_loop.h"
#include "offload/kernels.h"
#include "offload/leaf_loop.h"

#define ZERO_AVX512 "avx512f,avx512bw,avx512dq,avx512vl"

namespace zero {
namespace {

void adam_baseline(const AdamPiece& piece, const AdamScalars& s) { adam_sweep(piece, s); }
void squares_baseline(const float* values, int64_t num_leaves, double* sums) {
  leaf_squares(values, num_leaves, sums);
}

[[gnu::target("avx2")]] void adam_avx2(const AdamPiece& piece, const AdamScalars& s) {
  adam_sweep(piece, s);
}
[[gnu::target("avx2")]] void squares_avx2(const float* values, int64_t num_leaves,
                                          double* sums) {
  leaf_squares(values, num_leaves, sums);
}

[[gnu::target(ZERO_AVX512)]] void adam_avx512(const AdamPiece& piece,
                                              const AdamScalars& s) {
  adam_sweep(piece, s);
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
  std::vector<Kernels> all{{"baseline", adam_baseline, squares_baseline}};
  if (__builtin_cpu_supports("avx2")) all.push_back({"avx2", adam_avx2, squares_avx2});
  if (has_avx512()) all.push_back({"avx512", adam_avx512, squares_avx512});
  return all;
}

}  // namespace zero
