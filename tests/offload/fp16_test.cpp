#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <vector>

#include "base/dtype.h"
#include "offload/convert.h"
#include "tests/offload/adam_reference.h"
#include "tests/offload/test_data.h"

namespace zero::fp16_test {
namespace {

// Wherever the result changes, the floats on both sides of it are among these.
TEST(Fp16Test, RoundsToNearestEvenEverywhere) {
  for (uint32_t upper = 0; upper < 1 << 19; ++upper) {
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x1fffu}) {
      const uint32_t bits = upper << 13 | lower;
      const float value = std::bit_cast<float>(bits);
      ASSERT_EQ(float_to_fp16(value), float_to_fp16_reference(value)) << std::hex << bits;
    }
  }
}

TEST(Fp16Test, KnownValues) {
  EXPECT_EQ(float_to_fp16(1.0f), 0x3c00);
  EXPECT_EQ(float_to_fp16(-0.0f), 0x8000);
  EXPECT_EQ(float_to_fp16(1.0f + 0x1p-11f), 0x3c00);  // tie, down to even
  EXPECT_EQ(float_to_fp16(1.0f + 0x3p-11f), 0x3c02);  // tie, up to even
  EXPECT_EQ(float_to_fp16(65504.0f), 0x7bff);         // the largest
  EXPECT_EQ(float_to_fp16(65519.996f), 0x7bff);
  EXPECT_EQ(float_to_fp16(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_fp16(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(float_to_fp16(0x1p-14f), 0x0400);             // the smallest normal
  EXPECT_EQ(float_to_fp16(0x1p-14f - 0x1p-25f), 0x0400);  // tie, up to it
  EXPECT_EQ(float_to_fp16(-0x1p-24f), 0x8001);            // the smallest at all
  EXPECT_EQ(float_to_fp16(0x1p-25f), 0x0000);             // tie, down to zero
  EXPECT_EQ(float_to_fp16(0x1.000002p-25f), 0x0001);
  EXPECT_EQ(float_to_fp16(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(float_to_fp16(std::bit_cast<float>(0xff800001u)),
            0x7e00);  // a signalling NaN
}

TEST(Fp16Test, ArraysConvertAsTheirElementsDo) {
  for (const int64_t n : {0, 1, 7, 8, 33, 1001}) {
    const std::vector<float> values = spread_values(n + 1, 5, 8.0f);
    std::vector<uint16_t> fp16(values.size(), 0xbeef);
    convert_to_fp16(values.data(), fp16.data(), n);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(fp16[i], float_to_fp16(values[i]));
    EXPECT_EQ(fp16[n], 0xbeef) << "wrote past the end";
  }
}

}  // namespace
}  // namespace zero::fp16_test
