#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/errors.h"
#include "engine/step/lr_schedule.h"

namespace zero {
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

TEST(LrSchedule, WarmUpMayFillTheWholeRun) {
  for (const Kind kind : {Kind::kLinear, Kind::kCosine, Kind::kWsd}) {
    const LrSchedule s = schedule(kind, 100, 100);
    EXPECT_NO_THROW(check(s));
    EXPECT_DOUBLE_EQ(learning_rate(s, 99), 1.0);
    EXPECT_NEAR(learning_rate(s, 100), 0.1, 1e-12);
    EXPECT_NEAR(learning_rate(s, 101), 0.1, 1e-12);
  }
}

TEST(LrSchedule, TheRateMustFitAFloat) {
  LrSchedule s = schedule(Kind::kConstant);
  s.lr = std::numeric_limits<float>::max();
  EXPECT_NO_THROW(check(s));
  for (const double lr : {1e39, 1e300, double{INFINITY}}) {
    s.lr = lr;
    EXPECT_THROW(check(s), Error) << lr;
  }
  s.lr = 1e300;
  try {
    check(s);
  } catch (const Error& error) {
    EXPECT_EQ(error.problem(), "lr is 1e+300");
  }
}

TEST(LrSchedule, RefusesNonsense) {
  LrSchedule s = schedule(Kind::kCosine);
  s.lr = -1;
  EXPECT_THROW(check(s), Error);
  s = schedule(Kind::kCosine);
  s.lr = NAN;
  EXPECT_THROW(check(s), Error);
  s = schedule(Kind::kCosine);
  s.min_lr = 2;
  EXPECT_THROW(check(s), Error);
  s.min_lr = NAN;
  EXPECT_THROW(check(s), Error);
  EXPECT_THROW(check(schedule(Kind::kLinear, 0, 0)), Error);
  EXPECT_THROW(check(schedule(Kind::kLinear, 101, 100)), Error);
}

}  // namespace
}  // namespace zero
