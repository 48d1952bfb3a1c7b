#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "offload/random.h"

// The loops behind Kernels::fills: forced inline, so that they take on the caller's
// instruction set. Compile with -ffp-contract=off. The polynomials come from
// scripts/fit_random.py; each operation of theirs is rounded, so that all builds agree.
namespace zero {

// 16 blocks of Philox are a group of 64 elements: element 16 j + i of group g is made of
// word j of block 16 g + i, and words and elements of a kind lie side by side.
inline constexpr int64_t kRandomLanes = 16, kRandomGroup = 4 * kRandomLanes;

// The highest power first.
template <class... Rest>
[[gnu::always_inline]] inline float polynomial(float x, float first, Rest... rest) {
  ((first = first * x + rest), ...);
  return first;
}

// The natural logarithm, within 2 ulp; of zero and of subnormal numbers about -88.
[[gnu::always_inline]] inline float log_of(float x) {
  constexpr int32_t kRootOfHalf = 0x3f3504f3;
  const int32_t bits = std::bit_cast<int32_t>(x) - kRootOfHalf;
  const auto exponent = static_cast<float>(bits >> 23);
  const float y = std::bit_cast<float>((bits & 0x7fffff) + kRootOfHalf) - 1;
  const float p =
      polynomial(y, 0.0667527169f, -0.116464347f, 0.11904712f, -0.124112688f,
                 0.142178908f, -0.166676432f, 0.200022042f, -0.250000149f, 0.333333105f);
  const float square = y * y;
  // log 2 in two parts: the product of the first is exact.
  const float small = y * square * p + exponent * -2.12194440e-4f - 0.5f * square;
  return y + small + exponent * 0.693359375f;
}

struct CosSin {
  float cos, sin;
};

// Of turn / 2^32 of a whole turn: a quarter of one, and what is left of it.
[[gnu::always_inline]] inline CosSin cos_sin_of(uint32_t turn) {
  const uint32_t quarter = (turn + (uint32_t{1} << 29)) >> 30;
  const auto rest = static_cast<int32_t>(turn - (quarter << 30));
  const float x = static_cast<float>(rest) * 1.46291808e-9f;  // 2 pi / 2^32
  const float square = x * x;
  const float sin =
      x +
      x * square * polynomial(square, -0.000195181507f, 0.00833218638f, -0.166666552f);
  const float cos =
      1 - 0.5f * square +
      square * square *
          polynomial(square, 2.44328439e-05f, -0.0013887313f, 0.0416666456f);
  const bool is_swapped = (quarter & 1) != 0;
  const auto with_sign = [](float value, uint32_t is_negative) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ is_negative << 30);
  };
  return {with_sign(is_swapped ? sin : cos, (quarter + 1) & 2),
          with_sign(is_swapped ? cos : sin, quarter & 2)};
}

// Box and Muller, 1958, of a uniform number in (0, 1] that has 31 bits, and an angle. No
// element is more than 6.7 deviations away.
[[gnu::always_inline]] inline CosSin normal_pair(const NormalDraw& draw, uint32_t word,
                                                 uint32_t turn) {
  const float uniform =
      (static_cast<float>(static_cast<int32_t>(word >> 1)) + 0.5f) * 0x1p-31f;
  const float radius = draw.std * std::sqrt(-2 * log_of(uniform));
  const auto [cos, sin] = cos_sin_of(turn);
  return {draw.mean + radius * cos, draw.mean + radius * sin};
}

[[gnu::always_inline]] inline float value_of(const UniformDraw& draw, uint32_t word) {
  const float step = static_cast<float>(static_cast<int32_t>(word) >> 8) + 0.5f;
  const float value = draw.middle + draw.width * (step * 0x1p-24f);
  return std::min(std::max(value, draw.low), draw.high);
}

// Below the number lies p, above it q: both are sums of what is positive, so that either
// tail keeps its digits.
[[gnu::always_inline]] inline float value_of(const TruncatedNormalDraw& draw,
                                             uint32_t word) {
  const float step = static_cast<float>(static_cast<int32_t>(word) >> 8) + 0.5f;
  const float p = draw.below + draw.inside * (0.5f + step * 0x1p-24f);
  const float q = draw.above + draw.inside * (0.5f - step * 0x1p-24f);
  const float w = -log_of(4 * p * q);
  const float middle = polynomial(
      w - 2.5f, 3.95831492e-08f, 4.85179157e-07f, -4.9811938e-06f, -6.20788069e-06f,
      0.000309115101f, -0.00177304179f, -0.00590812974f, 0.348802686f, 2.12331367f);
  const float root = std::sqrt(std::max(w, 5.0f));
  const float tail =
      root * polynomial(1 / root - 0.25f, 1430.65723f, -685.84259f, -105.485832f,
                        43.5936852f, 11.2692442f, -0.74020052f, 0.782734215f,
                        0.113807827f, -0.280251712f, 1.35756874f);
  const float value = draw.mean + draw.std * ((p - q) * (w < 5 ? middle : tail));
  return std::min(std::max(value, draw.low), draw.high);
}

// (64) words to (64) elements.
[[gnu::always_inline]] inline void make_group(const NormalDraw& draw,
                                              const uint32_t* words,
                                              float* __restrict values) {
  for (int64_t half = 0; half < kRandomGroup; half += 2 * kRandomLanes) {
    for (int64_t i = half; i < half + kRandomLanes; ++i) {
      const CosSin pair = normal_pair(draw, words[i], words[i + kRandomLanes]);
      values[i] = pair.cos;
      values[i + kRandomLanes] = pair.sin;
    }
  }
}
template <class OneByOne>
[[gnu::always_inline]] inline void make_group(const OneByOne& draw, const uint32_t* words,
                                              float* __restrict values) {
  for (int64_t i = 0; i < kRandomGroup; ++i) values[i] = value_of(draw, words[i]);
}

// Element i comes of words[i] (64); `first` is the group's first element.
using RandomWords = void(uint64_t key, int64_t first, uint32_t* words);

[[gnu::always_inline]] inline void random_words(uint64_t key, int64_t first,
                                                uint32_t* __restrict words) {
  const auto block = static_cast<uint64_t>(first) / 4;
  for (uint64_t lane = 0; lane < kRandomLanes; ++lane) {
    const auto drawn = philox(key, block + lane, 0);
    for (int64_t j = 0; j < 4; ++j) words[j * kRandomLanes + lane] = drawn[j];
  }
}

template <class Kind>
[[gnu::always_inline]] inline void fill_loop(const Kind& draw, uint64_t key,
                                             int64_t begin, std::span<float> values,
                                             RandomWords* make_words) {
  const auto end = begin + static_cast<int64_t>(values.size());
  for (int64_t i = begin; i < end;) {
    const int64_t first = i / kRandomGroup * kRandomGroup;
    const int64_t next = std::min(end, first + kRandomGroup);
    float* const target = values.data() + (i - begin);
    alignas(64) uint32_t words[kRandomGroup];
    make_words(key, first, words);
    if (next - i == kRandomGroup) {
      make_group(draw, words, target);
    } else {
      alignas(64) float made[kRandomGroup];
      make_group(draw, words, made);
      std::copy(made + (i - first), made + (next - first), target);
    }
    i = next;
  }
}

}  // namespace zero
