#include "offload/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/offload/test_data.h"

namespace zero::exact_sum_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<int64_t> limbs_of(ExactSum sum) {
  const auto limbs = sum.limbs();
  return {limbs.begin(), limbs.end()};
}

ExactSum sum_of(const std::vector<double>& summands) {
  ExactSum sum;
  for (const double summand : summands) sum.add(summand);
  return sum;
}

ExactSum squares_of(const std::vector<float>& values) {
  ExactSum sum;
  add_squares(sum, values.data(), static_cast<int64_t>(values.size()));
  return sum;
}

// What the ranks' integer all-reduce does.
ExactSum all_reduced(std::vector<ExactSum> ranks) {
  ExactSum total;
  const auto limbs = total.limbs();
  for (ExactSum& rank : ranks) {
    std::transform(limbs.begin(), limbs.end(), rank.limbs().begin(), limbs.begin(),
                   std::plus<int64_t>());
  }
  return total;
}

// ---- the accumulator

TEST(ExactSumTest, NothingIsZero) {
  EXPECT_EQ(ExactSum().value(), 0.0);
  EXPECT_EQ(sum_of({0.0, 0.0}).value(), 0.0);
  EXPECT_TRUE(ExactSum().finite());
}

TEST(ExactSumTest, OneSummandComesBackExactly) {
  for (int exponent = -300; exponent < 340; ++exponent) {
    const double summand = std::ldexp(1.0 + 0x1.23456789abcdfp-3, exponent);
    ASSERT_EQ(sum_of({summand}).value(), summand) << exponent;
  }
}

TEST(ExactSumTest, SmallSummandsAreNotLostBesideLargeOnes) {
  std::vector<double> summands(1025, 0x1p-60);
  summands.front() = 1.0;
  EXPECT_EQ(sum_of(summands).value(),
            1.0 + 0x1p-50);  // 1 + 1024 * 2^-60; in fp64 they vanish
}

TEST(ExactSumTest, RoundsOnceToNearestEven) {
  const double ulp = 0x1p-52;
  EXPECT_EQ(sum_of({1.0, ulp / 2}).value(), 1.0);
  EXPECT_EQ(sum_of({1.0 + ulp, ulp / 2}).value(), 1.0 + 2 * ulp);
  EXPECT_EQ(sum_of({1.0, ulp / 2, 0x1p-290}).value(), 1.0 + ulp);  // a hair above the tie
  EXPECT_EQ(sum_of({0x1p300, 0x1p247, 0x1p-290}).value(), 0x1p300 + 0x1p248);
}

TEST(ExactSumTest, EqualSumsHaveEqualLimbsUpToTheTop) {
  for (int exponent = 290; exponent < 340; ++exponent) {
    const double summand = std::ldexp(1.0, exponent - 1);
    EXPECT_EQ(limbs_of(sum_of({summand, summand})), limbs_of(sum_of({2 * summand})))
        << exponent;
  }
}

TEST(ExactSumTest, ManyAddsOfTheLargestMantissaCarryRightly) {
  const double summand = std::nextafter(2.0, 0.0);
  ExactSum sum;
  for (int i = 0; i < (1 << 22); ++i) sum.add(summand);
  EXPECT_EQ(sum.value(), std::ldexp(summand, 22));
}

// Also where the sums of 2^20 ranks were added to the limbs before.
TEST(ExactSumTest, ALimbCarriesBeforeItIsFull) {
  const double grown = std::ldexp(static_cast<double>(ExactSum::kAddsPerCarry), 32);
  EXPECT_LT(0x1p52 + grown, 0x1p63);
}

TEST(ExactSumTest, MergesDoNotOverflow) {
  ExactSum sum = sum_of({std::nextafter(0x1p263, 0.0), 1.0});
  for (int i = 0; i < 30; ++i) sum.merge(ExactSum(sum));
  EXPECT_EQ(sum.value(), std::ldexp(std::nextafter(0x1p263, 0.0), 30));
  ExactSum many, one = sum_of({3.0});
  for (int i = 0; i < (1 << 20); ++i) many.merge(one);
  EXPECT_EQ(many.value(), 3.0 * (1 << 20));
}

TEST(ExactSumTest, EqualSumsHaveEqualLimbs) {
  EXPECT_EQ(limbs_of(sum_of({0.5, 0.5, 3.0})), limbs_of(sum_of({4.0})));
  EXPECT_EQ(limbs_of(sum_of({0x1p-299, 0x1p-299})), limbs_of(sum_of({0x1p-298})));
}

TEST(ExactSumTest, AMillionRanksDoNotOverflow) {
  ExactSum sum = sum_of({std::nextafter(0x1p300, 0.0)});
  for (int64_t& limb : sum.limbs())
    limb *= 1 << 20;  // as an all-reduce over 2^20 equal ranks
  EXPECT_EQ(sum.value(), std::ldexp(std::nextafter(0x1p300, 0.0), 20));
  sum.add(0x1p320);
  EXPECT_EQ(sum.value(), 0x1p320 + 0x1p320);
}

TEST(ExactSumTest, TinySummandsFlushToZero) {
  EXPECT_EQ(sum_of({0x1p-300}).value(), 0x1p-300);
  EXPECT_EQ(sum_of({std::nextafter(0x1p-300, 0.0)}).value(), 0.0);
  EXPECT_EQ(sum_of({std::numeric_limits<double>::denorm_min()}).value(), 0.0);
}

TEST(ExactSumTest, InfinityAndNanSurvive) {
  EXPECT_EQ(sum_of({1.0, kInfinity}).value(), kInfinity);
  EXPECT_FALSE(sum_of({1.0, kInfinity}).finite());
  EXPECT_TRUE(std::isnan(sum_of({kNan, 1.0, kInfinity}).value()));
  EXPECT_FALSE(sum_of({kNan}).finite());
  EXPECT_EQ(sum_of({0x1p340}).value(), kInfinity);

  const ExactSum inf_rank =
      all_reduced({sum_of({1.0}), sum_of({kInfinity}), sum_of({2.0})});
  EXPECT_EQ(inf_rank.value(), kInfinity);
  EXPECT_TRUE(std::isnan(all_reduced({inf_rank, sum_of({kNan})}).value()));
  ExactSum merged = sum_of({1.0});
  merged.merge(inf_rank);
  EXPECT_FALSE(merged.finite());
}

// ---- sweeps over values

class SquaresTest : public ::testing::Test {
 protected:
  std::vector<float> values = spread_values(300000, 11, 1024.0f);
};

TEST_F(SquaresTest, AgreeWithLongDouble) {
  long double expected = 0;
  for (const float value : values) expected += static_cast<long double>(value) * value;
  const auto sum = static_cast<double>(expected);
  EXPECT_NEAR(squares_of(values).value(), sum, 1e-13 * sum);
}

TEST_F(SquaresTest, DoNotDependOnTheOrderOfLeaves) {
  const auto expected = limbs_of(squares_of(values));
  std::vector<float> shuffled(values.size());
  const size_t num_leaves = values.size() / 64;
  ASSERT_EQ(values.size() % 64, 32u);  // the short leaf stays last
  std::copy(values.end() - 32, values.end(), shuffled.end() - 32);
  for (size_t i = 0; i < num_leaves; ++i) {
    const size_t from = i * 1009 % num_leaves;  // 1009 is prime: a permutation
    std::copy_n(values.begin() + from * 64, 64, shuffled.begin() + i * 64);
  }
  ASSERT_NE(shuffled, values);
  EXPECT_EQ(limbs_of(squares_of(shuffled)), expected);
}

TEST_F(SquaresTest, DoNotDependOnTheSplitIntoRanks) {
  const auto expected = limbs_of(squares_of(values));
  for (const size_t num_ranks : {2u, 3u, 4u, 7u}) {
    const size_t shard = (values.size() / num_ranks / 64 + 1) * 64;
    std::vector<ExactSum> ranks;
    for (size_t begin = 0; begin < values.size(); begin += shard) {
      const auto first = values.begin() + begin;
      ranks.push_back(
          squares_of({first, first + std::min(shard, values.size() - begin)}));
    }
    ASSERT_EQ(ranks.size(), num_ranks);
    EXPECT_EQ(limbs_of(all_reduced(ranks)), expected);
    EXPECT_EQ(all_reduced(ranks).value(), squares_of(values).value());
  }
}

// The order within a leaf decides the norm's last bits, and so those of a clipped run.
TEST_F(SquaresTest, ALeafIsSummedInEightLanesAndThenInPairs) {
  for (int64_t leaf = 0; leaf < 100; ++leaf) {
    const std::vector<float> some(values.begin() + 64 * leaf,
                                  values.begin() + 64 * (leaf + 1));
    std::vector<double> level(8);
    for (size_t i = 0; i < 64; ++i) level[i % 8] += std::pow(double{some[i]}, 2);
    while (level.size() > 1) {
      for (size_t i = 0; i < level.size() / 2; ++i)
        level[i] = level[2 * i] + level[2 * i + 1];
      level.resize(level.size() / 2);
    }
    ASSERT_EQ(squares_of(some).value(), level[0]) << leaf;
  }
}

TEST_F(SquaresTest, PaddingWithZerosChangesNothing) {
  for (const size_t numel : {0u, 1u, 63u, 64u, 65u, 1000u}) {
    std::vector<float> some(values.begin(), values.begin() + numel), padded = some;
    padded.resize(2048);
    EXPECT_EQ(limbs_of(squares_of(some)), limbs_of(squares_of(padded))) << numel;
  }
}

TEST_F(SquaresTest, EveryElementCounts) {
  const std::vector<float> ones(64 * 1024 + 77, 1.0f);
  EXPECT_EQ(squares_of(ones).value(), 64 * 1024 + 77);
  EXPECT_EQ(squares_of({std::numeric_limits<float>::denorm_min()}).value(), 0x1p-298);
  const double largest = std::numeric_limits<float>::max();
  EXPECT_EQ(squares_of({std::numeric_limits<float>::max()}).value(), largest * largest);
}

TEST_F(SquaresTest, OneBadValueIsSeen) {
  values[123456] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(squares_of(values).value(), kInfinity);
  values[299999] = kNan;
  EXPECT_TRUE(std::isnan(squares_of(values).value()));
}

TEST_F(SquaresTest, TheSizeOfMagnitudesIsTheirSum) {
  ExactSum sum;
  const std::vector<float> some{-1.0f, 2.0f, -0.5f};
  add_abs(sum, some.data(), 3);
  EXPECT_EQ(sum.value(), 3.5);
  add_abs(sum, values.data(), 300000);
  long double expected = 3.5;
  for (const float value : values) expected += std::fabs(value);
  EXPECT_NEAR(sum.value(), static_cast<double>(expected),
              1e-12 * static_cast<double>(expected));
}

TEST_F(SquaresTest, TheLargestMagnitudeIsFound) {
  const auto largest = [&] { return max_abs(values.data(), 300000); };
  values[299999] = -2048.0f;
  EXPECT_EQ(largest(), 2048.0f);
  values[0] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(largest(), std::numeric_limits<float>::infinity());
  values[150000] = -kNan;
  EXPECT_TRUE(std::isnan(largest()));
  EXPECT_EQ(max_abs(nullptr, 0), 0.0f);
}

}  // namespace
}  // namespace zero::exact_sum_test
