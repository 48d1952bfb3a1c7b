#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "zero/errors.h"
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

TEST(LrSchedule, WarmUpMayFillTheWholeRun) {
  for (const Kind kind : {Kind::kLinear, Kind::kCosine, Kind::kWsd}) {
    const LrSchedule s = schedule(kind, 100, 100);
    EXPECT_NO_THROW(check(s));
    EXPECT_DOUBLE_EQ(learning_rate(s, 99), 1.0);
    EXPECT_NEAR(learning_rate(s, 100), 0.1, 1e-12);
    EXPECT_NEAR(learning_rate(s, 101), 0.1, 1e-12);
  }
}

// What check() says is wrong; nothing when it is content.
std::string problem_of(const LrSchedule& s) {
  try {
    check(s);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.problem();
  }
  return "";
}

std::string problem_of_rates(double lr, double min_lr) {
  LrSchedule s = schedule(Kind::kCosine);
  s.lr = lr;
  s.min_lr = min_lr;
  return problem_of(s);
}

TEST(LrSchedule, RefusesRatesThatAreNone) {
  EXPECT_EQ(problem_of_rates(-1, 0), "lr is -1");
  EXPECT_EQ(problem_of_rates(NAN, 0), "lr is nan");
  EXPECT_EQ(problem_of_rates(1, 2), "min_lr is 2, lr is 1");
  EXPECT_EQ(problem_of_rates(1, -0.5), "min_lr is -0.5, lr is 1");
  EXPECT_EQ(problem_of_rates(1, NAN), "min_lr is nan, lr is 1");
}

TEST(LrSchedule, TheRateMustFitAFloat) {
  EXPECT_EQ(problem_of_rates(std::numeric_limits<float>::max(), 0), "");
  EXPECT_EQ(problem_of_rates(1e39, 0), "lr is 1e+39");
  EXPECT_EQ(problem_of_rates(1e300, 0), "lr is 1e+300");
  EXPECT_EQ(problem_of_rates(INFINITY, 0), "lr is inf");
}

TEST(LrSchedule, RefusesStepsThatDoNotFitTogether) {
  EXPECT_EQ(problem_of(schedule(Kind::kLinear, 100, 100)), "");
  EXPECT_EQ(problem_of(schedule(Kind::kConstant, 5, 0)), "");
  EXPECT_EQ(problem_of(schedule(Kind::kLinear, 0, 0)), "total_steps is 0");
  EXPECT_EQ(problem_of(schedule(Kind::kLinear, -1, 100)), "warmup_steps is -1");
  EXPECT_EQ(problem_of(schedule(Kind::kLinear, 101, 100)),
            "warmup_steps is 101, the run has 100 steps");
}

}  // namespace
}  // namespace zero::step_lr_schedule_test
