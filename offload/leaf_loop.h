#pragma once

#include <cmath>
#include <cstdint>

#include "base/dtype.h"
#include "base/host_device.h"

namespace zero {

inline constexpr int64_t kLeafNumel = 64;

// The sum of 64 terms in eight lanes, then a tree over them: a fixed order that compilers
// can vectorise. Compile with -ffp-contract=off.
template <double (*kTerm)(float), class T>
ZERO_HOST_DEVICE double leaf_sum(const T* values) {
  double lanes[8] = {};
  for (int64_t i = 0; i < kLeafNumel; i += 8) {
    for (int64_t j = 0; j < 8; ++j) lanes[j] += kTerm(load(values[i + j]));
  }
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

ZERO_HOST_DEVICE double square(float value) { return double{value} * double{value}; }
ZERO_HOST_DEVICE double magnitude(float value) { return std::fabs(double{value}); }

[[gnu::always_inline]] inline void leaf_squares(const float* values, int64_t num_leaves,
                                                double* sums) {
  for (int64_t i = 0; i < num_leaves; ++i)
    sums[i] = leaf_sum<square>(values + i * kLeafNumel);
}

}  // namespace zero
