#include "engine/options/check_options.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "zero/errors.h"

namespace zero::check_options_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = LrSchedule::Kind;

// What is wrong with options on one rank that computes on the host.
std::vector<std::string> problems(const Options& options) {
  std::vector<std::string> all;
  for (const OptionProblem& problem : problems_of(options, 1, UnitMemory::kHost))
    all.push_back(problem.what);
  return all;
}

std::vector<std::string> problems(const LrSchedule& schedule) {
  Options options;
  options.schedule = schedule;
  options.optimizer.weight_decay = 0;
  return problems(options);
}

std::vector<std::string> problems_of_rates(double lr, double min_lr) {
  return problems({.kind = Kind::kCosine, .lr = lr, .min_lr = min_lr, .total_steps = 9});
}

TEST(CheckOptions, TheFirstProblemIsThrownWithWhatIsAllowed) {
  Options options;
  options.schedule.min_lr = 1;
  options.prefetch = -1;
  const OptionProblem first = problems_of(options, 3, UnitMemory::kHost).front();
  EXPECT_THAT(first.options, ElementsAre("schedule.lr", "schedule.min_lr"));
  EXPECT_THAT(problems(options),
              ElementsAre("min_lr 1 is above lr 0.0003", "prefetch is -1"));
  try {
    check(options, 3, UnitMemory::kHost);
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_EQ(error.problem(), "min_lr 1 is above lr 0.0003");
    EXPECT_EQ(error.cure(), "0 to lr");
  }
  EXPECT_NO_THROW(check({}, 3, UnitMemory::kHost));
}

TEST(CheckOptions, RatesThatAreNone) {
  EXPECT_THAT(problems_of_rates(1, 1), IsEmpty());
  EXPECT_EQ(problems_of_rates(-1, 0).front(), "lr is -1");
  EXPECT_EQ(problems_of_rates(NAN, 0).front(), "lr is nan");
  EXPECT_THAT(problems_of_rates(1, 2), ElementsAre("min_lr 2 is above lr 1"));
  EXPECT_THAT(problems_of_rates(1, -0.5), ElementsAre("min_lr is -0.5"));
  EXPECT_THAT(problems_of_rates(1, NAN), ElementsAre("min_lr is nan"));
}

TEST(CheckOptions, TheRateMustFitAFloat) {
  EXPECT_THAT(problems_of_rates(std::numeric_limits<float>::max(), 0), IsEmpty());
  EXPECT_THAT(problems_of_rates(1e39, 0), ElementsAre("lr is 1e+39"));
  EXPECT_THAT(problems_of_rates(1e300, 0), ElementsAre("lr is 1e+300"));
  EXPECT_EQ(problems_of_rates(INFINITY, 0).front(), "lr is inf");
}

TEST(CheckOptions, StepsThatDoNotFitTogether) {
  const auto steps = [](Kind kind, int64_t warmup, int64_t total, int64_t decay = 0) {
    return problems({.kind = kind,
                     .warmup_steps = warmup,
                     .total_steps = total,
                     .decay_steps = decay});
  };
  EXPECT_THAT(steps(Kind::kLinear, 100, 100), IsEmpty());
  EXPECT_THAT(steps(Kind::kConstant, 5, 0), IsEmpty());
  EXPECT_THAT(steps(Kind::kLinear, 0, 0), ElementsAre("total_steps is 0"));
  EXPECT_THAT(steps(Kind::kLinear, -1, 100), ElementsAre("warmup_steps is -1"));
  EXPECT_THAT(steps(Kind::kLinear, 101, 100),
              ElementsAre("warmup_steps 101 is above steps 100"));
  EXPECT_THAT(steps(Kind::kWsd, 10, 100, 90), IsEmpty());
  EXPECT_THAT(steps(Kind::kWsd, 10, 100, 91),
              ElementsAre("decay_steps 91 is above steps - warmup_steps = 90"));
  EXPECT_THAT(steps(Kind::kWsd, 101, 100, 91),
              ElementsAre("warmup_steps 101 is above steps 100"));
  EXPECT_THAT(steps(Kind::kCosine, 0, 100, 1),
              ElementsAre("decay_steps belongs to schedule wsd, not to cosine"));
}

TEST(CheckOptions, LossScalesThatWouldRoundOrNeverMove) {
  const auto scales = [](const LossScaleOptions& scale) {
    Options options;
    options.dtype = DType::kFp16;
    options.loss_scale = scale;
    return problems(options);
  };
  EXPECT_THAT(scales({}), IsEmpty());
  EXPECT_THAT(scales({.init = 1, .window = 1, .min = 1}), IsEmpty());
  EXPECT_THAT(scales({.init = kLargestLossScale, .min = kLargestLossScale}), IsEmpty());
  EXPECT_THAT(scales({.init = 3}), ElementsAre("loss_scale_init is 3"));
  EXPECT_EQ(scales({.init = 0}).front(), "loss_scale_init is 0");
  EXPECT_EQ(scales({.init = -8}).front(), "loss_scale_init is -8");
  EXPECT_THAT(scales({.init = int64_t{1} << 25}),
              ElementsAre("loss_scale_init is 33554432"));
  EXPECT_THAT(scales({.min = 6}), ElementsAre("loss_scale_min is 6"));
  EXPECT_THAT(scales({.min = 0}), ElementsAre("loss_scale_min is 0"));
  EXPECT_THAT(scales({.init = 4, .min = 8}),
              ElementsAre("loss_scale_min 8 is above loss_scale_init 4"));
  EXPECT_THAT(scales({.window = 0}), ElementsAre("loss_scale_window is 0"));
}

TEST(CheckOptions, DeterministicSumsNeedAPowerOfTwoOfRanks) {
  Options options;
  options.deterministic = true;
  const auto are_refused = [&](int num_ranks) {
    return !problems_of(options, num_ranks, UnitMemory::kHost).empty();
  };
  EXPECT_FALSE(are_refused(1));
  EXPECT_FALSE(are_refused(8));
  EXPECT_TRUE(are_refused(3));
  EXPECT_TRUE(are_refused(12));
}

}  // namespace
}  // namespace zero::check_options_test
