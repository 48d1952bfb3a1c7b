#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/dtype.h"

namespace zero::checkpoint::testing::floats_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float widened(DType dtype, uint16_t bits) {
  char stored[2];
  std::memcpy(stored, &bits, 2);
  float value = 0;
  widen(dtype, stored, 1, &value);
  return value;
}

uint16_t narrowed(DType dtype, float value) {
  char stored[2];
  narrow(&value, 1, dtype, stored);
  uint16_t bits = 0;
  std::memcpy(&bits, stored, 2);
  return bits;
}

// By the definition: sign, exponent, mantissa, in double.
double value_of(uint16_t bits, int mantissa_bits) {
  const int exponent_bits = 15 - mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign *
         std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

class HalfTest : public ::testing::TestWithParam<DType> {
 protected:
  double value_of(uint16_t bits) {
    return floats_test::value_of(bits, GetParam() == DType::kBf16 ? 7 : 10);
  }
};

TEST_P(HalfTest, EveryHalfIsReadExactlyAndWrittenAsItWas) {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float value = widened(GetParam(), bits);
    if (std::isnan(value_of(bits))) {
      ASSERT_TRUE(std::isnan(value)) << i;
      ASSERT_TRUE(std::isnan(widened(GetParam(), narrowed(GetParam(), value)))) << i;
    } else {
      ASSERT_EQ(value, value_of(bits)) << i;
      ASSERT_EQ(std::signbit(value), bits >> 15 != 0) << i;
      ASSERT_EQ(narrowed(GetParam(), value), bits) << i;
    }
  }
}

// In the middle between two halves, the even one; beside it, the nearer one.
TEST_P(HalfTest, RoundingIsToNearestEven) {
  const uint16_t infinite = narrowed(GetParam(), kInfinity);
  for (uint16_t low = 0; low + 1 < infinite; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    const auto middle = static_cast<float>((value_of(low) + value_of(high)) / 2);
    for (const int sign : {1, -1}) {
      const auto rounded = [&](float value) {
        return narrowed(GetParam(), sign * value) & 0x7fff;
      };
      ASSERT_EQ(rounded(middle), low % 2 == 0 ? low : high) << low;
      ASSERT_EQ(rounded(std::nextafter(middle, 0.0f)), low) << low;
      ASSERT_EQ(rounded(std::nextafter(middle, kInfinity)), high) << low;
    }
  }
}

TEST_P(HalfTest, WhatIsTooLargeIsInfinite) {
  EXPECT_EQ(widened(GetParam(), narrowed(GetParam(), std::numeric_limits<float>::max())),
            kInfinity);
  EXPECT_EQ(widened(GetParam(), narrowed(GetParam(), -kInfinity)), -kInfinity);
}

TEST_P(HalfTest, EveryNanStaysNan) {
  for (const uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu})
    EXPECT_TRUE(
        std::isnan(widened(GetParam(), narrowed(GetParam(), std::bit_cast<float>(bits)))))
        << bits;
}

INSTANTIATE_TEST_SUITE_P(Both, HalfTest, ::testing::Values(DType::kBf16, DType::kFp16),
                         [](const auto& dtype) { return name_of(dtype.param); });

TEST(FloatsTest, DoublesAreRounded) {
  const std::vector<double> values = {1 + 0x1p-25, 1 + 0x1p-24 + 0x1p-40, 1e300, -0.0};
  std::vector<float> read(values.size());
  widen(DType::kFp64, reinterpret_cast<const char*>(values.data()), 4, read.data());
  EXPECT_EQ(read, (std::vector<float>{1, 1 + 0x1p-23f, kInfinity, -0.0f}));
}

TEST(FloatsTest, FloatsGoThroughWiderTypesUnchanged) {
  const std::vector<float> values = {0.1f, -0.0f, 0x1p-149f, kInfinity};
  for (const DType dtype : {DType::kFp32, DType::kFp64}) {
    std::vector<char> stored(values.size() * static_cast<size_t>(size_of(dtype)));
    std::vector<float> read(values.size());
    narrow(values.data(), 4, dtype, stored.data());
    widen(dtype, stored.data(), 4, read.data());
    EXPECT_EQ(std::memcmp(read.data(), values.data(), sizeof(float) * 4), 0);
  }
}

}  // namespace
}  // namespace zero::checkpoint::testing::floats_test
