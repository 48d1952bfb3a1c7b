#pragma once

#include <bit>
#include <cstdint>

#include "base/host_device.h"

namespace zero {

// Convert between float and bfloat16, which is kept as its 16 bits.
//
// Rounding is to nearest, ties to even; what is too large becomes infinite. Every NaN
// becomes 0x7fc0, so that the result never depends on a NaN's payload.
ZERO_HOST_DEVICE uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(is_nan ? 0x7fc0u : rounded);
}

// Exact: every bfloat16 is a float.
ZERO_HOST_DEVICE float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Read and write an element that is kept as fp32 or as bf16.
ZERO_HOST_DEVICE float load(float value) { return value; }
ZERO_HOST_DEVICE float load(uint16_t bf16) { return bf16_to_float(bf16); }
ZERO_HOST_DEVICE void store(float value, float& to) { to = value; }
ZERO_HOST_DEVICE void store(float value, uint16_t& to) { to = float_to_bf16(value); }

}  // namespace zero
