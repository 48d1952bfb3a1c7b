#pragma once

#include <bit>
#include <cstdint>

#include "base/host_device.h"
#include "offload/exact_sum.h"

namespace zero {

// Add a number that is not negative to the limbs of an ExactSum, `stride` apart: below
// 2^32 to each of three neighbours. These are integers: threads may each have limbs of
// their own, which are added up in any order.
ZERO_HOST_DEVICE void add_exactly(double summand, int64_t* limbs, int stride = 1) {
  // A double is mantissa * 2^(biased exponent - 1075). Bit 0 of a mantissa with the first
  // of these biased exponents, that of 2^-300, falls on bit 0 of limb 0; from the second
  // on, a mantissa would leave limb 21.
  constexpr uint64_t kFirstExponent = 1075 + ExactSum::kLowestExponent;
  constexpr uint64_t kEndExponent = 1023 + 340;
  static_assert((kEndExponent - 1 - kFirstExponent) / 32 + 2 == ExactSum::kTopLimb);

  const uint64_t bits = std::bit_cast<uint64_t>(summand);
  const uint64_t exponent = bits >> 52;  // with the sign above it
  if (exponent < kFirstExponent) return;
  if (exponent >= kEndExponent) {
    const bool is_nan = summand != summand;
    ++limbs[(is_nan ? ExactSum::kNan : ExactSum::kInfinite) * stride];
    return;
  }
  const uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1} << 52);
  const uint64_t place = exponent - kFirstExponent;
  const uint64_t shift = place % 32;  // the mantissa, 53 bits, moves up by that
  int64_t* const limb = limbs + static_cast<int>(place / 32) * stride;
  limb[0] += static_cast<uint32_t>(mantissa << shift);
  limb[stride] += static_cast<uint32_t>(mantissa >> (32 - shift));
  limb[2 * stride] += static_cast<uint32_t>((mantissa >> 32) >> (32 - shift));
}

}  // namespace zero
