#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/dtype.h"
#include "offload/convert.h"
#include "tests/offload/adam_reference.h"
#include "tests/offload/test_data.h"

namespace zero::bf16_test {
namespace {

TEST(Bf16Test, RoundsToNearestEvenEverywhere) {
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const uint32_t bits = upper << 16 | lower;
      const float value = std::bit_cast<float>(bits);
      ASSERT_EQ(float_to_bf16(value), float_to_bf16_reference(value)) << std::hex << bits;
    }
  }
}

TEST(Bf16Test, KnownValues) {
  EXPECT_EQ(float_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bf16(-0.0f), 0x8000);
  EXPECT_EQ(float_to_bf16(1.0f + 0x1p-8f), 0x3f80);  // tie, down to even
  EXPECT_EQ(float_to_bf16(1.0f + 0x3p-8f), 0x3f82);  // tie, up to even
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_bf16(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0xff800001u)),
            0x7fc0);  // a signalling NaN
}

TEST(Bf16Test, EveryBf16SurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bf16_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_to_bf16(value), bits);
  }
}

TEST(Bf16Test, ArraysConvertAsTheirElementsDo) {
  for (const int64_t n : {0, 1, 7, 8, 33, 1001}) {
    const std::vector<float> values = spread_values(n + 1, 5, 8.0f);
    std::vector<uint16_t> bf16(values.size(), 0xbeef);
    convert_to_bf16(values.data(), bf16.data(), n);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(bf16[i], float_to_bf16(values[i]));
    EXPECT_EQ(bf16[n], 0xbeef) << "wrote past the end";
  }
}

}  // namespace
}  // namespace zero::bf16_test
