#include <cpuid.h>
#include <immintrin.h>

#include <limits>

#include "offload/fp16.h"
#include "offload/kernels.h"
#include "offload/leaf_loop.h"
#include "offload/sweep_loop.h"
#include "offload/update_loop.h"

#define ZERO_AVX512 "avx512f,avx512bw,avx512dq,avx512vl"

namespace zero {
namespace {

// The instruction keeps a NaN's payload; before it every NaN becomes the same one.
[[gnu::target("avx,f16c")]] void to_fp16_f16c(const float* from, uint16_t* to,
                                              int64_t n) {
  const __m256 nan = _mm256_set1_ps(std::numeric_limits<float>::quiet_NaN());
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 values = _mm256_loadu_ps(from + i);
    const __m256 is_nan = _mm256_cmp_ps(values, values, _CMP_UNORD_Q);
    const __m128i halves =
        _mm256_cvtps_ph(_mm256_blendv_ps(values, nan, is_nan), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
  for (; i < n; ++i) to[i] = float_to_fp16(from[i]);
}

template <class Rule>
[[gnu::target("avx2")]] void update_avx2(const UpdatePiece& piece, const Rule& rule) {
  update_piece(piece, rule, to_fp16_f16c);
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
  update_piece(piece, rule, to_fp16_f16c);
}
[[gnu::target(ZERO_AVX512)]] void sweep_avx512(const UpdatePiece& piece,
                                               uint32_t no_bits) {
  sweep_piece(piece, no_bits);
}
[[gnu::target(ZERO_AVX512)]] void squares_avx512(const float* values, int64_t num_leaves,
                                                 double* sums) {
  leaf_squares(values, num_leaves, sums);
}

// With it every such CPU has F16C, but a virtual machine may hide that.
bool has_avx2() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) &&
         (c & bit_F16C) != 0;
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

}  // namespace

std::vector<Kernels> kernels() {
  std::vector<Kernels> all{baseline_kernels()};
  if (has_avx2())
    all.push_back({"avx2",
                   {update_avx2, update_avx2, update_avx2, update_avx2},
                   sweep_avx2,
                   squares_avx2,
                   to_fp16_f16c});
  if (has_avx512())
    all.push_back({"avx512",
                   {update_avx512, update_avx512, update_avx512, update_avx512},
                   sweep_avx512,
                   squares_avx512,
                   to_fp16_f16c});
  return all;
}

}  // namespace zero
