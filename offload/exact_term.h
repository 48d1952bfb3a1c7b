#pragma once

#include <bit>
#include <cstdint>

#include "offload/exact_sum.h"
#include "offload/host_device.h"

namespace zero {

// What a summand adds to an ExactSum: to three limbs, `first` and the two above it. To
// add it is to add integers, which any number of threads may do in any order.
struct ExactTerm {
  int first = 0;
  int64_t limbs[3] = {};  // below 2^32 each
};

ZERO_HOST_DEVICE ExactTerm exact_term(double summand) {
  // A double is mantissa * 2^(biased exponent - 1075). Bit 0 of a mantissa with the first
  // of these biased exponents, that of 2^-300, falls on bit 0 of limb 0; from the second
  // on, a mantissa would leave limb 21.
  constexpr uint64_t kFirstExponent = 1075 + ExactSum::kLowestExponent;
  constexpr uint64_t kEndExponent = 1023 + 340;
  static_assert((kEndExponent - 1 - kFirstExponent) / 32 + 2 == ExactSum::kTopLimb);
  static_assert(ExactSum::kInfinite == ExactSum::kTopLimb + 1 &&
                ExactSum::kNan == ExactSum::kTopLimb + 2);

  const uint64_t bits = std::bit_cast<uint64_t>(summand);
  const uint64_t exponent = bits >> 52;  // with the sign above it
  if (exponent < kFirstExponent) return {};
  if (exponent >= kEndExponent) {
    const bool is_nan = summand != summand;
    return {ExactSum::kTopLimb, {0, !is_nan, is_nan}};
  }
  const uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1} << 52);
  const uint64_t place = exponent - kFirstExponent;
  const uint64_t shift = place % 32;  // the mantissa, 53 bits, moves up by that
  return {static_cast<int>(place / 32),
          {static_cast<uint32_t>(mantissa << shift),
           static_cast<uint32_t>(mantissa >> (32 - shift)),
           static_cast<uint32_t>((mantissa >> 32) >> (32 - shift))}};
}

}  // namespace zero
