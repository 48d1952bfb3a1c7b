#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "base/host_device.h"

namespace zero {

// Add non-negative numbers without rounding, so that no order can change the sum.
//
// The sum is a fixed-point integer from 2^-352 up, kept as 22 limbs of 32 bits inside
// int64, beside a count of infinite and one of NaN summands. To add the sums of several
// ranks, add their limbs() element by element: an integer all-reduce of 24 values.
//
// Summands below 2^-300 count as 0 (the square of the smallest float is 2^-298); those
// from 2^340 up count as infinite (the square of the largest float is 2^256). Not
// thread-safe.
class ExactSum {
 public:
  static constexpr int kNumLimbs = 24;
  static constexpr int kLowestExponent = -352;  // of bit 0 of limb 0
  static constexpr int kTopLimb = 21;           // above it are counts of summands:
  static constexpr int kInfinite = 22;
  static constexpr int kNan = 23;
  // From one carry to the next: each adds less than 2^32 to a limb, all less than 2^61.
  static constexpr int64_t kAddsPerCarry = int64_t{1} << 29;

  // Add one number, which is not negative. Any number of times.
  void add(double summand);

  // Add another sum. Any number of times.
  void merge(const ExactSum& other);

  // The limbs in one normal form for equal sums, to be read or summed in place over up to
  // 2^20 ranks. Stays valid while the object lives, until the next add() or merge().
  std::span<int64_t> limbs();

  // The sum, rounded once to nearest even; NaN or infinite when a summand was (NaN wins).
  double value() const;

  // Whether value() is a number.
  bool finite() const { return limbs_[kInfinite] == 0 && limbs_[kNan] == 0; }

 private:
  void carry();

  std::array<int64_t, kNumLimbs> limbs_{};
  int64_t num_adds_since_carry_ = 0;
};

// The size of a gradient: sum of |x|, root of the sum of squares, or largest |x|.
enum class NormType { kL1, kL2, kInf };

// Add the squares, or the magnitudes, of `values` (numel).
//
// Leaves of 64 consecutive values are summed in fp64 in a fixed order, and each leaf is
// added exactly. A last leaf that is shorter counts as if filled up with zeros. So the
// sum is the same for any split, among threads and ranks, at multiples of 64.
void add_squares(ExactSum& sum, const float* values, int64_t numel);
void add_abs(ExactSum& sum, const float* values, int64_t numel);

// The largest magnitude of `values` (numel); NaN when there is one, 0 for no values.
float max_abs(const float* values, int64_t numel);

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
