#pragma once

#include <cstdint>

namespace zero {

inline constexpr int64_t kLeafNumel = 64;

// The sum of 64 terms in eight lanes, then a tree over them: a fixed order that compilers
// can vectorise. Forced inline, so that it takes on the caller's instruction set; compile
// with
// -ffp-contract=off.
template <double (*kTerm)(float)>
[[gnu::always_inline]] inline double leaf_sum(const float* values) {
  double lanes[8] = {};
  for (int64_t i = 0; i < kLeafNumel; i += 8) {
    for (int64_t j = 0; j < 8; ++j) lanes[j] += kTerm(values[i + j]);
  }
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

[[gnu::always_inline]] inline double square(float value) {
  return double{value} * double{value};
}

[[gnu::always_inline]] inline void leaf_squares(const float* values, int64_t num_leaves,
                                                double* sums) {
  for (int64_t i = 0; i < num_leaves; ++i)
    sums[i] = leaf_sum<square>(values + i * kLeafNumel);
}

}  // namespace zero
