#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/dtype.h"
#include "engine/step/addition.h"
#include "offload/convert.h"

namespace zero::step_addition_test {
namespace {

// More than a chunk, and not a multiple of one.
constexpr int64_t kNumel = (1 << 16) + 64 + 7;

std::vector<float> values(float scale) {
  std::vector<float> all(kNumel);
  for (int64_t i = 0; i < kNumel; ++i)
    all[i] = scale * std::sin(static_cast<float>(i) * 0.7f + scale);
  return all;
}

class AdditionTest : public ::testing::TestWithParam<int> {
 protected:
  ThreadPool threads{GetParam()};
  const std::vector<float> left = values(1), right = values(3);
  std::vector<float> sum = values(5);
  GradientNorm norm{NormType::kL2};

  double norm_of(const std::vector<float>& all) {
    GradientNorm whole(NormType::kL2);
    whole.add(all.data(), kNumel);
    return reduced(whole);
  }
  double reduced(GradientNorm& of) { return of.reduce(1, *ranks_); }

 private:
  const std::unique_ptr<Ranks> ranks_ = make_one_rank();
};

TEST_P(AdditionTest, ANullSideCountsAsZeros) {
  const auto added = [&](const float* a, const float* b) {
    add_up({.left = a, .right = b, .sum = sum.data()}, 0, kNumel, threads);
    return sum;
  };
  std::vector<float> both(kNumel);
  for (int64_t i = 0; i < kNumel; ++i) both[i] = left[i] + right[i];
  EXPECT_EQ(added(left.data(), right.data()), both);
  EXPECT_EQ(added(left.data(), nullptr), left);
  EXPECT_EQ(added(nullptr, right.data()), right);
  EXPECT_EQ(added(nullptr, nullptr), std::vector<float>(kNumel, 0));
}

TEST_P(AdditionTest, TheSumMayBeASide) {
  std::vector<float> expected(kNumel);
  for (int64_t i = 0; i < kNumel; ++i) expected[i] = sum[i] + right[i];
  add_up({.left = sum.data(), .right = right.data(), .sum = sum.data()}, 0, kNumel,
         threads);
  EXPECT_EQ(sum, expected);
  add_up({.left = sum.data(), .sum = sum.data(), .norm = &norm}, 0, kNumel, threads);
  EXPECT_EQ(sum, expected);
  EXPECT_EQ(reduced(norm), norm_of(expected));
}

TEST_P(AdditionTest, Bf16ComesInExactlyAndGoesOutRounded) {
  std::vector<uint16_t> halves(kNumel), out(kNumel);
  convert_to_bf16(right.data(), halves.data(), kNumel);
  add_up({.left = left.data(),
          .right_bf16 = halves.data(),
          .sum_bf16 = out.data(),
          .norm = &norm},
         0, kNumel, threads);
  std::vector<float> stored(kNumel);
  for (int64_t i = 0; i < kNumel; ++i) {
    const uint16_t expected = float_to_bf16(left[i] + bf16_to_float(halves[i]));
    ASSERT_EQ(out[i], expected) << i;
    stored[i] = bf16_to_float(expected);
  }
  EXPECT_EQ(reduced(norm), norm_of(stored));  // of what is stored
}

TEST_P(AdditionTest, PartsAddUpToTheWhole) {
  GradientNorm of_whole(NormType::kL2);
  const Addition addition{.left = left.data(), .right = right.data(), .sum = sum.data()};
  Addition whole = addition, parts = addition;
  whole.norm = &of_whole;
  add_up(whole, 0, kNumel, threads);
  const std::vector<float> expected = sum;
  std::fill(sum.begin(), sum.end(), 0.0f);
  parts.norm = &norm;
  for (const auto& [begin, end] :
       {std::pair<int64_t, int64_t>{0, 64}, {64, 20032}, {20032, kNumel}})
    add_up(parts, begin, end, threads);
  EXPECT_EQ(sum, expected);
  EXPECT_EQ(reduced(norm), reduced(of_whole));
}

TEST_P(AdditionTest, ANaNAnywhereIsInTheLargest) {
  for (const int64_t place : {int64_t{0}, kNumel - 1}) {
    std::vector<float> odd = right;
    odd[place] = std::nanf("");
    GradientNorm largest(NormType::kInf);
    add_up({.right = odd.data(), .norm = &largest}, 0, kNumel, threads);
    EXPECT_TRUE(std::isnan(reduced(largest))) << place;
  }
}

TEST_P(AdditionTest, RoundsHoldsTheSameInFp32) {
  add_up({.left = left.data(),
          .right = right.data(),
          .sum = sum.data(),
          .rounds = true,
          .norm = &norm},
         0, kNumel, threads);
  std::vector<float> stored(kNumel);
  for (int64_t i = 0; i < kNumel; ++i)
    stored[i] = bf16_to_float(float_to_bf16(left[i] + right[i]));
  EXPECT_EQ(sum, stored);
  EXPECT_EQ(reduced(norm), norm_of(stored));
}

INSTANTIATE_TEST_SUITE_P(Threads, AdditionTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace zero::step_addition_test
