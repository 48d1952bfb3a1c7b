#include "launcher/run/stream_shares.h"

#include <gmock/gmock.h>

namespace zero::launcher::stream_shares_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Shares shares(double compute, double waiting, double weights, double gradients,
              double optimizer) {
  return {compute, waiting, weights, gradients, optimizer};
}

TEST(Shares, AreFractionsOfTheTimeThatWentBy) {
  const Shares half = shares_of({1, 0.5, 0.25, 0.75, 2}, 2);
  EXPECT_EQ(half.compute, 0.5);
  EXPECT_EQ(half.waiting, 0.25);
  EXPECT_EQ(half.weights, 0.125);
  EXPECT_EQ(half.gradients, 0.375);
  EXPECT_EQ(half.optimizer, 1);
  EXPECT_EQ(shares_of({1, 1, 1, 1, 1}, 0).compute, 0);
}

TEST(Shares, OfManyStepsTheLongerOneCountsForMore) {
  MeanShares mean;
  EXPECT_FALSE(mean.has_any());
  mean.add(shares(1, 0.5, 0, 0.5, 0), 3);
  mean.add(shares(0, 1, 0.5, 0.5, 1), 1);
  EXPECT_TRUE(mean.has_any());
  EXPECT_EQ(mean.mean().compute, 0.75);
  EXPECT_EQ(mean.mean().waiting, 0.625);
  EXPECT_EQ(mean.mean().weights, 0.125);
  EXPECT_EQ(mean.mean().gradients, 0.5);
  EXPECT_EQ(mean.mean().optimizer, 0.25);
}

TEST(Shares, OfCoresCountEachCore) {
  EXPECT_EQ(share_of_cores(2, 4, 2), 0.25);
  EXPECT_EQ(share_of_cores(-1, 4, 2), 0) << "a thread has ended";
  EXPECT_EQ(share_of_cores(2, 0, 2), 0);
  EXPECT_EQ(share_of_cores(2, 4, 0), 0);
}

TEST(BoundBy, WhatIsBusyForTheLongestTime) {
  EXPECT_EQ(bound_by(shares(0.91, 0.05, 0.9, 0.2, 0.3)), Bound::kCompute);
  EXPECT_EQ(bound_by(shares(0.45, 0.5, 0.93, 0.4, 0.3)), Bound::kWeights);
  EXPECT_EQ(bound_by(shares(0.45, 0.5, 0.4, 0.8, 0.3)), Bound::kGradients);
  EXPECT_EQ(bound_by(shares(0.3, 0.7, 0.2, 0.2, 0.6)), Bound::kOptimizer);
}

TEST(BoundBy, WhatIsWaitedForThoughComputationTakesLonger) {
  EXPECT_EQ(bound_by(shares(0.6, 0.35, 0.1, 0.2, 0.5)), Bound::kOptimizer);
  EXPECT_EQ(bound_by(shares(0.75, 0.2, 0.1, 0.2, 0.5)), Bound::kCompute);
  EXPECT_EQ(bound_by(shares(0.6, 0.35, 0.1, 0.2, 0.3)), Bound::kCompute);
}

TEST(BoundBy, SavesThatUpdatesWaitFor) {
  Shares held = shares(0.18, 0.82, 0.03, 0.03, 0.1);
  held.saves = 0.78;
  EXPECT_EQ(bound_by(held), Bound::kSaves);
  EXPECT_THAT(bound_sentence(held, false), HasSubstr("bound by: saves (cpu 18%"));
  EXPECT_EQ(shares_of({1, 1, 1, 1, 1, 0.5}, 2).saves, 0.25);
}

TEST(BoundBy, CoresWhereThreadsWaitForThem) {
  Shares busy = shares(0.91, 0.05, 0.9, 0.2, 0.3);
  busy.without_core = 0.125;
  EXPECT_EQ(bound_by(busy), Bound::kCompute);
  busy.without_core = 0.13;
  EXPECT_EQ(bound_by(busy), Bound::kCores);
  busy.without_core = 0.96;
  EXPECT_EQ(bound_by(busy), Bound::kCores);
  EXPECT_THAT(bound_sentence(busy, false),
              AllOf(HasSubstr("bound by: cores that are taken"),
                    HasSubstr("threads without a core 96%"), HasSubstr("--threads")));
}

TEST(BoundBy, DataWhereNobodyWaitsForTheModel) {
  EXPECT_EQ(bound_by(shares(0.3, 0.1, 0.9, 0.1, 0.1)), Bound::kData);
  EXPECT_EQ(bound_by(shares(0.3, 0.3, 0.1, 0.1, 0.1)), Bound::kCompute);
}

TEST(Shares, OfHalfAPercentAreTold) {
  EXPECT_EQ(to_text(shares(0.5, 0.1, 0.012, 0.004, 0), true), "gpu 50% h2d 1%");
  EXPECT_EQ(to_text(shares(0, 0, 0, 0, 0), true), "");
}

TEST(BoundBy, IsASentenceWithACure) {
  EXPECT_EQ(bound_sentence(shares(0.913, 0.02, 0.2, 0.001, 0.07), true),
            "bound by: compute (gpu 91% h2d 20% adam 7%, waiting 2%)");
  const std::string weights = bound_sentence(shares(0.4, 0.6, 0.8, 0.1, 0.1), true);
  EXPECT_THAT(weights, HasSubstr("weights on their way to the GPU"));
  EXPECT_THAT(weights, HasSubstr("%); a larger --micro-batch"));
  EXPECT_THAT(bound_sentence(shares(0.4, 0.6, 0.8, 0.1, 0.1), false),
              HasSubstr("gathering weights (cpu 40% gather 80% reduce 10% adam 10%"));
  EXPECT_THAT(bound_sentence(shares(0.4, 0.6, 0.1, 0.8, 0.1), true),
              HasSubstr("--reduce-dtype bf16"));
  EXPECT_THAT(bound_sentence(shares(0.4, 0.6, 0.1, 0.1, 0.8), true),
              HasSubstr("--global-batch"));
  EXPECT_THAT(bound_sentence(shares(0.1, 0.1, 0.1, 0.1, 0.1), true),
              Not(HasSubstr("--")));
}

}  // namespace
}  // namespace zero::launcher::stream_shares_test
