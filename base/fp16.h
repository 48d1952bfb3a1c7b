#pragma once

#include <bit>
#include <cstdint>

#include "base/host_device.h"

namespace zero {

// Convert float to IEEE's half precision, which is kept as its 16 bits.
//
// Rounding is to nearest, ties to even, also among subnormals; 65520 and what is larger
// becomes infinite. Every NaN becomes 0x7e00, so that the result never depends on a NaN's
// payload. Integer arithmetic but for one addition, so that every
// instruction set gives the same bits, those that have an instruction for it too.
ZERO_HOST_DEVICE uint16_t float_to_fp16(float value) {
  constexpr uint32_t kLowest = 0x38800000u;   // 2^-14: subnormal below
  constexpr uint32_t kTooHigh = 0x47800000u;  // 2^16
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  // A carry out of the mantissa is the next exponent; the last one is infinity.
  const uint32_t normal =
      (magnitude - (kLowest - (1u << 23)) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // The last bit of floats from 0.5 on is worth 2^-24, which is half's smallest value.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
      std::bit_cast<uint32_t>(0.5f);
  uint32_t half = magnitude < kLowest ? subnormal : normal;
  half = magnitude < kTooHigh ? half : 0x7c00u;
  half |= bits >> 16 & 0x8000u;
  return static_cast<uint16_t>(magnitude > 0x7f800000u ? 0x7e00u : half);
}

}  // namespace zero
