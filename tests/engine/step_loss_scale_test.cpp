#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "zero/loss_scale.h"

namespace zero::step_loss_scale_test {
namespace {

using ::testing::ElementsAre;

// The scale of each step, the one after the last included.
std::vector<int64_t> scales(const LossScaleOptions& options,
                            const std::vector<bool>& overflows) {
  LossScaleState state{options.init};
  std::vector<int64_t> all{state.scale};
  for (const bool has_overflowed : overflows)
    all.push_back((state = next(state, has_overflowed, options)).scale);
  return all;
}

TEST(LossScale, DoublesAfterAWindowOfCleanSteps) {
  EXPECT_THAT(scales({.init = 1 << 8, .window = 2}, std::vector<bool>(10, false)),
              ElementsAre(256, 256, 512, 512, 1024, 1024, 2048, 2048, 4096, 4096, 8192));
}

TEST(LossScale, HalvesWithEveryOverflowDownToTheSmallest) {
  EXPECT_THAT(scales({.init = 1 << 4}, std::vector<bool>(8, true)),
              ElementsAre(16, 8, 4, 2, 1, 1, 1, 1, 1));
  EXPECT_THAT(scales({.init = 1 << 4, .min = 4}, std::vector<bool>(4, true)),
              ElementsAre(16, 8, 4, 4, 4));
}

TEST(LossScale, AnOverflowBeginsTheWindowAnew) {
  EXPECT_THAT(
      scales({.init = 8, .window = 3}, {false, false, true, false, false, false, false}),
      ElementsAre(8, 8, 8, 4, 4, 4, 8, 8));
  // At the smallest scale, too.
  EXPECT_THAT(scales({.init = 1, .window = 2}, {false, true, false, false}),
              ElementsAre(1, 1, 1, 1, 2));
}

TEST(LossScale, GrowsNoFurtherThanTheLargest) {
  EXPECT_THAT(scales({.init = kLargestLossScale / 2, .window = 1}, {false, false, false}),
              ElementsAre(1 << 23, 1 << 24, 1 << 24, 1 << 24));
}

TEST(LossScale, IsAPowerOfTwoThatIsNotTooLarge) {
  for (const int64_t good : {int64_t{1}, int64_t{2}, kLargestLossScale})
    EXPECT_TRUE(is_loss_scale(good)) << good;
  for (const int64_t bad : {int64_t{0}, int64_t{-2}, int64_t{3}, 2 * kLargestLossScale})
    EXPECT_FALSE(is_loss_scale(bad)) << bad;
}

// As after a resume with another window or another smallest scale.
TEST(LossScale, WhatAnotherRunKeptGoesOn) {
  EXPECT_EQ(next({64, 1999}, false, {.window = 10}), (LossScaleState{128, 0}));
  EXPECT_EQ(next({2, 5}, true, {.init = 8, .min = 4}), (LossScaleState{4, 0}));
  EXPECT_EQ(next({64, INT64_MAX}, false, {.window = 10}), (LossScaleState{128, 0}));
}

}  // namespace
}  // namespace zero::step_loss_scale_test
