#include "offload/stored_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/dtype.h"
#include "tests/offload/test_data.h"

namespace zero::stored_values_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

float from_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(SplitFloatTest, EveryPatternOfBitsComesBack) {
  int64_t num_wrong = 0;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 97) {
    const float value = from_bits(static_cast<uint32_t>(bits));
    const SplitFloat halves = split_float(value);
    const float joined = join_float(halves.high, halves.low);
    num_wrong += std::isnan(value)
                     ? !(std::isnan(joined) && std::isnan(bf16_to_float(halves.high)))
                     : std::bit_cast<uint32_t>(joined) != bits;
  }
  EXPECT_EQ(num_wrong, 0);
}

// The high half is what torch's conversion gives, but for ties.
TEST(SplitFloatTest, TheHighHalfIsTheNearestBf16) {
  for (uint64_t bits = 0; bits < 0x7f800000u; bits += 101) {
    const float value = from_bits(static_cast<uint32_t>(bits));
    const uint16_t even = float_to_bf16(value), high = split_float(value).high;
    if ((bits & 0xffffu) == 0x8000u)
      ASSERT_EQ(high, (bits >> 16) + 1) << bits;
    else
      ASSERT_EQ(high, even) << bits;
    ASSERT_EQ(split_float(-value).high, high | 0x8000u);
  }
  EXPECT_EQ(split_float(from_bits(0x3f808000u)).high, 0x3f81u);
  EXPECT_EQ(float_to_bf16(from_bits(0x3f808000u)), 0x3f80u);
  EXPECT_EQ(split_float(from_bits(0x7fffffffu)).high, 0x7fc0u);
  EXPECT_EQ(split_float(from_bits(0xffffffffu)).high, 0x7fc0u);
}

class StoredValuesTest : public ::testing::Test {
 protected:
  std::vector<float> plain = std::vector<float>(5);
  std::vector<uint16_t> high = std::vector<uint16_t>(5), low = high, rounded = high,
                        in_fp16 = high;
  const std::vector<StoredValues> all{{plain.data(), 5},
                                      StoredValues::in_bf16(rounded.data(), 5),
                                      StoredValues::in_halves(high.data(), low.data(), 5),
                                      StoredValues::in_fp16(in_fp16.data(), 5)};
};

TEST_F(StoredValuesTest, WhatIsWrittenIsReadWhereItWasWritten) {
  const std::vector<float> values{1.5f, -2, 0.25f};
  for (const StoredValues& stored : all) {
    stored.write(1, values);
    EXPECT_THAT(stored.read_all(), ElementsAre(0, 1.5f, -2, 0.25f, 0));
    EXPECT_EQ(stored[2], -2);
    std::vector<float> two(2);
    stored.read(2, two);
    EXPECT_THAT(two, ElementsAre(-2, 0.25f));
    stored.set(0, 5, [](std::span<float> some) { std::ranges::fill(some, 7.0f); });
    EXPECT_THAT(stored.read_all(), Each(7));
  }
}

TEST_F(StoredValuesTest, OnlyBf16AndFp16Round) {
  const std::vector<float> values = spread_values(5, 1, 1);
  for (const StoredValues& stored : all) stored.write(0, values);
  EXPECT_EQ(all[0].read_all(), values);
  EXPECT_EQ(all[2].read_all(), values);
  for (size_t i = 0; i < 5; ++i)
    EXPECT_EQ(all[1][i], bf16_to_float(float_to_bf16(values[i])));
  for (size_t i = 0; i < 5; ++i)
    EXPECT_EQ(all[3][i], fp16_to_float(float_to_fp16(values[i])));
}

TEST_F(StoredValuesTest, OnlyPlainOnesAreThereAsFloats) {
  EXPECT_EQ(all[0].span().data(), plain.data());
  EXPECT_THROW(all[1].span(), std::logic_error);
  EXPECT_THROW(all[2].span(), std::logic_error);
  EXPECT_TRUE(StoredValues().span().empty());
}

TEST(StoredValues, InBlocksAreWrittenABlockAtATime) {
  constexpr int64_t kNumel = 300;
  std::vector<Int8Block> blocks(3);
  const StoredValues stored = StoredValues::in_int8(blocks.data(), kNumel);
  EXPECT_FALSE(stored.is_plain());
  const std::vector<float> values = spread_values(kNumel, 1, 1);
  stored.write(0, values);
  const std::vector<float> read = stored.read_all();
  for (int64_t i = 0; i < kNumel; ++i)
    EXPECT_NEAR(read[i], values[i], blocks[i / 128].factor * 0.51f);
  const std::span<const float> all(values);
  stored.write(256, all.subspan(0, 44));
  stored.write(0, all.subspan(128, 128));
  EXPECT_EQ(stored[0], read[128]);
  EXPECT_EQ(stored[130], read[130]);
  for (const auto& [begin, numel] : {std::pair(1, 128), {0, 127}, {256, 43}, {299, 1}})
    EXPECT_THROW(stored.write(begin, all.subspan(0, numel)), std::logic_error) << begin;
}

// Memory whose bytes are not what they seem: only who copies through it can read them.
class Elsewhere final : public FarMemory {
 public:
  void read(void* here, const void* there, int64_t bytes) override {
    ++num_reads;
    copy(static_cast<std::byte*>(here), static_cast<const std::byte*>(there), bytes);
  }
  void write(void* there, const void* here, int64_t bytes) override {
    copy(static_cast<std::byte*>(there), static_cast<const std::byte*>(here), bytes);
  }
  int num_reads = 0;

 private:
  static void copy(std::byte* to, const std::byte* from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; ++i) to[i] = from[i] ^ std::byte{0x5a};
  }
};

TEST(StoredValues, InBlocksThatAreFarAway) {
  constexpr int64_t kNumel = (1 << 20) + 300;
  const std::vector<float> values = spread_values(kNumel, 2, 1);
  std::vector<Int8Block> near(kNumel / 128 + 1), far = near;
  Elsewhere elsewhere;
  StoredValues::in_int8(near.data(), kNumel).write(0, values);
  const StoredValues there = StoredValues::in_int8(far.data(), kNumel).in(&elsewhere);
  there.write(0, values);
  const std::vector<float> expected =
      StoredValues::in_int8(near.data(), kNumel).read_all();
  EXPECT_EQ(there.read_all(), expected);
  for (const int64_t begin : {int64_t{5}, int64_t{127}, int64_t{1 << 20}}) {
    std::vector<float> some(200);
    there.read(begin, some);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), expected.begin() + begin)) << begin;
  }
  EXPECT_EQ(there[kNumel - 1], expected[kNumel - 1]);
  EXPECT_THROW(there.write(3, std::span(values).subspan(0, 128)), std::logic_error);
}

// In each of the ways, and more than pass through at once.
TEST(StoredValues, OfMemoryThatIsFarAway) {
  constexpr int64_t kNumel = (1 << 20) + 77;
  std::vector<float> values(kNumel);
  for (int64_t i = 0; i < kNumel; ++i) values[i] = 0.001f * static_cast<float>(i - 5000);
  std::vector<float> plain(kNumel);
  std::vector<uint16_t> high(kNumel), low(kNumel);
  Elsewhere elsewhere;
  for (const StoredValues& here :
       {StoredValues(plain.data(), kNumel), StoredValues::in_bf16(high.data(), kNumel),
        StoredValues::in_fp16(high.data(), kNumel),
        StoredValues::in_halves(high.data(), low.data(), kNumel)}) {
    here.write(0, values);
    const std::vector<float> expected = here.read_all();
    const StoredValues far = here.in(&elsewhere);
    EXPECT_FALSE(far.is_plain());
    EXPECT_THROW(far.span(), std::logic_error);
    far.write(0, values);
    EXPECT_NE(here.read_all(), expected);
    EXPECT_EQ(far.read_all(), expected);
    EXPECT_EQ(far[kNumel - 1], expected[kNumel - 1]);
    far.set(kNumel - 3, 2, [](std::span<float> two) { two[0] = 0.5f, two[1] = 2; });
    std::vector<float> last(4);
    far.read(kNumel - 4, last);
    EXPECT_EQ(last,
              (std::vector<float>{expected[kNumel - 4], 0.5f, 2, expected[kNumel - 1]}));
    EXPECT_TRUE(here.in(nullptr).is_plain() == here.is_plain());
  }
  EXPECT_GT(elsewhere.num_reads, 0);
}

}  // namespace
}  // namespace zero::stored_values_test
