#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/host_device.h"

namespace zero {

// What the elements of a tensor are, wherever they lie: in memory, on the wire, in a
// file.
//
// kInt8 is how frozen weights may lie in memory, in no file: in Int8Blocks.
enum class DType { kFp64, kFp32, kBf16, kFp16, kInt64, kInt32, kUint8, kBool, kInt8 };

const char* name_of(DType dtype);  // "fp32", "bf16", ...
int64_t size_of(DType dtype);      // bytes of one element; 0 of kInt8
// Of so many elements, which begin where a block does.
int64_t bytes_of(DType dtype, int64_t numel);
// Of those that have elements.
std::optional<DType> dtype_named(std::string_view name);

// Floating-point values of any width in a file, fp32 in memory.

bool is_floating(DType dtype);  // kFp64, kFp32, kBf16, kFp16: what the others work on

// Convert `n` values, which lie as in a file, to fp32: exactly, fp64 rounded to nearest.
void widen(DType dtype, const char* from, int64_t n, float* to);

// Convert `n` values to what lies in a file: rounded to nearest, ties to even; what is
// too large becomes infinite, every NaN one and the same.
void narrow(const float* from, int64_t n, DType dtype, char* to);

// Neighbours that have one factor: each is its value times that. A block with a value
// that is not finite is NaN throughout.
//
// The factor is the largest magnitude / 127, rounded to 16 significant bits: so that a
// product is exact in fp32, and a block that is read and written again stays the same.
// Where it would be below 2^-124, all are zero.
struct Int8Block {
  static constexpr int64_t kNumel = 128;
  float factor;
  int8_t values[kNumel];
};
static_assert(sizeof(Int8Block) == 132 && alignof(Int8Block) == 4);

// Round up to kNumel values to nearest, ties to even; the others are 0.
void encode(const float* from, int64_t numel, Int8Block& to);

// Exact.
ZERO_HOST_DEVICE float decode(int8_t value, float factor) {
  return static_cast<float>(value) * factor;
}

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

// Convert half precision, kept as its 16 bits, to float: exactly.
//
// The exponent is moved to float's place; infinity and NaN need it moved twice. A
// subnormal is its mantissa above 2^-14, less 2^-14: no float here is subnormal, so that
// a processor that takes those for zero gives the same.
ZERO_HOST_DEVICE float fp16_to_float(uint16_t half) {
  constexpr uint32_t kShift = (127u - 15u) << 23;
  constexpr uint32_t kLowest = 0x38800000u;  // 2^-14
  const uint32_t moved = (half & 0x7fffu) << 13;
  const uint32_t exponent = moved & 0x0f800000u;
  const uint32_t normal = moved + kShift;
  const auto subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(moved | kLowest) -
                                                 std::bit_cast<float>(kLowest));
  uint32_t bits = exponent == 0 ? subnormal : normal;
  bits = exponent == 0x0f800000u ? normal + kShift : bits;
  return std::bit_cast<float>(bits | (half & 0x8000u) << 16);
}

}  // namespace zero
