#include <immintrin.h>

#include <limits>

#include "base/dtype.h"
#include "offload/kernels_of.h"
#include "offload/x86.h"

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

// The products of eight lanes by one factor, as their high and their low halves.
struct Products {
  __m256i high, low;
};
[[gnu::target("avx2"), gnu::always_inline]] inline Products multiplied(__m256i lanes,
                                                                       uint32_t factor) {
  const __m256i factors = _mm256_set1_epi32(static_cast<int>(factor));
  const __m256i even = _mm256_mul_epu32(lanes, factors);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(lanes, 32), factors);
  return {_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa),
          _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa)};
}

[[gnu::target("avx2"), gnu::always_inline]] inline __m256i in_all_lanes(uint64_t word) {
  return _mm256_set1_epi32(static_cast<int>(static_cast<uint32_t>(word)));
}

// philox() of counters `block` to `block` + 7, a multiple of 8: compilers spend three
// times as long, on bringing products of 64 bits back into lanes of 32.
[[gnu::target("avx2"), gnu::always_inline]] inline void philox_of_eight(uint64_t key,
                                                                        uint64_t block,
                                                                        uint32_t* words) {
  __m256i c0 =
      _mm256_or_si256(in_all_lanes(block), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  __m256i c1 = in_all_lanes(block >> 32), c2 = in_all_lanes(0), c3 = in_all_lanes(0);
  __m256i k0 = in_all_lanes(key), k1 = in_all_lanes(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const Products p0 = multiplied(c0, kPhiloxFactors[0]);
    const Products p1 = multiplied(c2, kPhiloxFactors[1]);
    c0 = _mm256_xor_si256(_mm256_xor_si256(p1.high, c1), k0);
    c1 = p1.low;
    c2 = _mm256_xor_si256(_mm256_xor_si256(p0.high, c3), k1);
    c3 = p0.low;
    k0 = _mm256_add_epi32(k0, in_all_lanes(kPhiloxKeySteps[0]));
    k1 = _mm256_add_epi32(k1, in_all_lanes(kPhiloxKeySteps[1]));
  }
  const __m256i c[] = {c0, c1, c2, c3};
  for (int64_t j = 0; j < 4; ++j)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + j * kRandomLanes), c[j]);
}

[[gnu::target("avx2")]] void random_words_avx2(uint64_t key, int64_t first,
                                               uint32_t* words) {
  const auto block = static_cast<uint64_t>(first) / 4;
  for (int64_t lane = 0; lane < kRandomLanes; lane += 8)
    philox_of_eight(key, block + static_cast<uint64_t>(lane), words + lane);
}

struct Avx2 {
  static constexpr auto to_fp16 = to_fp16_f16c;
  static constexpr auto words = random_words_avx2;
  template <class Loop>
  [[gnu::target("avx2")]] static void run(const Loop& loop) {
    loop();
  }
};

struct Avx512 {
  static constexpr auto to_fp16 = to_fp16_f16c;
  static constexpr auto words = random_words_avx2;
  template <class Loop>
  [[gnu::target(ZERO_AVX512)]] static void run(const Loop& loop) {
    loop();
  }
};

}  // namespace

std::vector<Kernels> kernels() {
  std::vector<Kernels> all{baseline_kernels()};
  if (has_avx2()) all.push_back(kernels_of<Avx2>("avx2"));
  if (has_avx512()) all.push_back(kernels_of<Avx512>("avx512"));
  return all;
}

}  // namespace zero
