#include "checkpoint/floats.h"

#include <bit>
#include <cassert>
#include <cstring>
#include <functional>

namespace zero::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little);  // as in every file

float from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(is_nan ? 0x7fc0u : rounded);
}

// The exponent is moved to float's place; infinity and NaN need it moved twice. A
// subnormal is its mantissa above 2^-14, less 2^-14: no float here is subnormal, so that
// a processor that takes those for zero gives the same.
float from_fp16(uint16_t half) {
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

uint16_t to_fp16(float value) {
  constexpr uint32_t kLowest = 0x38800000u;   // 2^-14: subnormal below
  constexpr uint32_t kTooHigh = 0x47800000u;  // 2^16
  const auto bits = std::bit_cast<uint32_t>(value);
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

template <class Stored, class Convert>
void widen_each(const char* __restrict from, int64_t n, float* __restrict to,
                const Convert& convert) {
  for (int64_t i = 0; i < n; ++i) {
    Stored value;
    std::memcpy(&value, from + i * int64_t{sizeof(Stored)}, sizeof(Stored));
    to[i] = convert(value);
  }
}

template <class Stored, class Convert>
void narrow_each(const float* __restrict from, int64_t n, char* __restrict to,
                 const Convert& convert) {
  for (int64_t i = 0; i < n; ++i) {
    const Stored value = convert(from[i]);
    std::memcpy(to + i * int64_t{sizeof(Stored)}, &value, sizeof(Stored));
  }
}

}  // namespace

bool is_floating(DType dtype) {
  return dtype == DType::kFp64 || dtype == DType::kFp32 || dtype == DType::kBf16 ||
         dtype == DType::kFp16;
}

void widen(DType dtype, const char* from, int64_t n, float* to) {
  assert(is_floating(dtype));
  const auto as_float = [](double value) { return static_cast<float>(value); };
  if (dtype == DType::kFp64) widen_each<double>(from, n, to, as_float);
  if (dtype == DType::kFp32) widen_each<float>(from, n, to, std::identity());
  if (dtype == DType::kBf16) widen_each<uint16_t>(from, n, to, from_bf16);
  if (dtype == DType::kFp16) widen_each<uint16_t>(from, n, to, from_fp16);
}

void narrow(const float* from, int64_t n, DType dtype, char* to) {
  assert(is_floating(dtype));
  if (dtype == DType::kFp64) narrow_each<double>(from, n, to, std::identity());
  if (dtype == DType::kFp32) narrow_each<float>(from, n, to, std::identity());
  if (dtype == DType::kBf16) narrow_each<uint16_t>(from, n, to, to_bf16);
  if (dtype == DType::kFp16) narrow_each<uint16_t>(from, n, to, to_fp16);
}

}  // namespace zero::checkpoint
