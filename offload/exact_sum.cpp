#include "offload/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

#include "offload/kernels.h"
#include "offload/leaf_loop.h"

namespace zero {
namespace {

using Uint128 = unsigned __int128;

constexpr int kLimbBits = 32;
constexpr int64_t kLimbMask = (int64_t{1} << kLimbBits) - 1;

}  // namespace

void ExactSum::add(double summand) {
  assert(!(summand < 0) && "a negative summand would need borrows");
  add_exactly(summand, limbs_.data());
  if (++num_adds_since_carry_ == kAddsPerCarry) carry();
}

void ExactSum::merge(const ExactSum& other) {
  ExactSum summand = other;
  summand.carry();
  carry();
  for (int i = 0; i < kNumLimbs; ++i) limbs_[i] += summand.limbs_[i];
  carry();
}

std::span<int64_t> ExactSum::limbs() {
  carry();
  return limbs_;
}

// Bring limbs 0..20 below 2^32 each; the top limb takes what is left.
void ExactSum::carry() {
  for (int i = 0; i < kTopLimb; ++i) {
    limbs_[i + 1] += limbs_[i] >> kLimbBits;
    limbs_[i] &= kLimbMask;
  }
  num_adds_since_carry_ = 0;
}

double ExactSum::value() const {
  if (limbs_[kNan] > 0) return std::numeric_limits<double>::quiet_NaN();
  if (limbs_[kInfinite] > 0) return std::numeric_limits<double>::infinity();

  ExactSum sum = *this;
  sum.carry();
  int top = kTopLimb;
  while (top > 2 && sum.limbs_[top] == 0) --top;

  // Three limbs hold at least 65 significant bits, or all there are; one more bit tells
  // whether anything lies below. That is enough to round once and rightly to 53.
  Uint128 leading = 0;
  for (int i = top; i > top - 3; --i)
    leading = (leading << kLimbBits) + Uint128(sum.limbs_[i]);
  const bool is_more_below = std::any_of(&sum.limbs_[0], &sum.limbs_[top - 2],
                                         [](int64_t limb) { return limb != 0; });
  leading |= is_more_below;
  return std::ldexp(static_cast<double>(leading),
                    kLowestExponent + kLimbBits * (top - 2));
}

namespace {

void leaf_magnitudes(const float* values, int64_t num_leaves, double* sums) {
  for (int64_t i = 0; i < num_leaves; ++i)
    sums[i] = leaf_sum<magnitude>(values + i * kLeafNumel);
}

using LeafSums = void (*)(const float* values, int64_t num_leaves, double* sums);

void add_terms(ExactSum& sum, LeafSums leaf_sums, const float* values, int64_t numel) {
  constexpr int64_t kLeaves = 64;  // at a time: their values stay in the first-level
                                   // cache
  double sums[kLeaves];
  const int64_t num_whole = numel / kLeafNumel;
  for (int64_t i = 0; i < num_whole; i += kLeaves) {
    const int64_t count = std::min(kLeaves, num_whole - i);
    leaf_sums(values + i * kLeafNumel, count, sums);
    for (int64_t j = 0; j < count; ++j) sum.add(sums[j]);
  }
  if (const float* rest = values + num_whole * kLeafNumel; rest < values + numel) {
    float leaf[kLeafNumel] = {};
    std::copy(rest, values + numel, leaf);
    leaf_sums(leaf, 1, sums);
    sum.add(sums[0]);
  }
}

}  // namespace

void add_squares(ExactSum& sum, const float* values, int64_t numel) {
  add_terms(sum, fastest_kernels().leaf_squares, values, numel);
}

void add_abs(ExactSum& sum, const float* values, int64_t numel) {
  add_terms(sum, leaf_magnitudes, values, numel);
}

float max_abs(const float* values, int64_t numel) {
  // Without signs, floats order as their bits do, infinity next to last and NaN last.
  uint32_t largest = 0;
  for (int64_t i = 0; i < numel; ++i)
    largest = std::max(largest, std::bit_cast<uint32_t>(values[i]) & 0x7fffffffu);
  return std::bit_cast<float>(largest);
}

}  // namespace zero
