#include <gtest/gtest.h>

#include "zero/lr_schedule.h"

namespace zero::step_lr_schedule_test {
namespace {

using Kind = LrSchedule::Kind;

LrSchedule schedule(Kind kind, int64_t warmup = 0, int64_t total = 100) {
  LrSchedule s;
  s.kind = kind;
  s.lr = 1.0;
  s.min_lr = 0.1;
  s.warmup_steps = warmup;
  s.total_steps = total;
  return s;
}

TEST(LrSchedule, WarmsUpLinearly) {
  for (const Kind kind : {Kind::kConstant, Kind::kLinear, Kind::kCosine, Kind::kWsd}) {
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind, 4), 0), 0.25);
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind, 4), 3), 1.0);
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind, 4), 4), 1.0);
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind, 0), 0), 1.0);
  }
}

TEST(LrSchedule, EndsAtItsMinimum) {
  EXPECT_DOUBLE_EQ(learning_rate(schedule(Kind::kConstant), 1000), 1.0);
  for (const Kind kind : {Kind::kLinear, Kind::kCosine, Kind::kWsd}) {
    EXPECT_NEAR(learning_rate(schedule(kind), 100), 0.1, 1e-12);
    EXPECT_NEAR(learning_rate(schedule(kind), 1000), 0.1, 1e-12);
  }
}

TEST(LrSchedule, FollowsItsShape) {
  EXPECT_DOUBLE_EQ(learning_rate(schedule(Kind::kLinear), 50), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(Kind::kCosine, 20), 60), 0.55);
  EXPECT_NEAR(learning_rate(schedule(Kind::kCosine), 25),
              0.1 + 0.9 * (1 + std::cos(M_PI / 4)) / 2, 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(Kind::kWsd), 80), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(Kind::kWsd), 90), 0.55);
}

TEST(LrSchedule, WsdDecaysForAsLongAsItIsTold) {
  LrSchedule s = schedule(Kind::kWsd);
  s.decay_steps = 40;
  EXPECT_DOUBLE_EQ(learning_rate(s, 60), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 80), 0.55);
}

TEST(LrSchedule, WsdBeginsToDecayWhereTheWarmUpEnds) {
  LrSchedule s = schedule(Kind::kWsd, 50);
  s.decay_steps = 80;
  EXPECT_DOUBLE_EQ(learning_rate(s, 50), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 75), 0.55);
}

TEST(LrSchedule, WarmUpMayFillTheWholeRun) {
  for (const Kind kind : {Kind::kLinear, Kind::kCosine, Kind::kWsd}) {
    const LrSchedule s = schedule(kind, 100, 100);
    EXPECT_DOUBLE_EQ(learning_rate(s, 99), 1.0);
    EXPECT_NEAR(learning_rate(s, 100), 0.1, 1e-12);
    EXPECT_NEAR(learning_rate(s, 101), 0.1, 1e-12);
  }
}

}  // namespace
}  // namespace zero::step_lr_schedule_test
