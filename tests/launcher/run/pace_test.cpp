#include <gtest/gtest.h>

#include "launcher/run/progress.h"

namespace zero::launcher::pace_test {
namespace {

TEST(SavePace, StepsAreTakenAtTheirWord) {
  SavePace pace({.steps = 10, .seconds = 0});
  pace.note_save(0, 1e6);
  EXPECT_FALSE(pace.is_due(0, 1e9)) << "nothing is trained";
  EXPECT_FALSE(pace.is_due(9, 1e9));
  EXPECT_TRUE(pace.is_due(10, 0));
  EXPECT_TRUE(pace.is_due(20, 0));
}

TEST(SavePace, TimeCountsFromTheEndOfTheLastSave) {
  SavePace pace({.steps = 0, .seconds = 600});
  pace.note_save(1000, 0);
  EXPECT_FALSE(pace.is_due(1, 1599));
  EXPECT_TRUE(pace.is_due(1, 1600));
  pace.note_save(1610, 10);
  EXPECT_FALSE(pace.is_due(2, 2209));
  EXPECT_TRUE(pace.is_due(2, 2210));
}

TEST(SavePace, SavesTakeATwentiethOfTheTimeAtMost) {
  SavePace pace({.steps = 0, .seconds = 10});
  pace.note_save(0, 5);
  EXPECT_FALSE(pace.is_due(1, 94));
  EXPECT_TRUE(pace.is_due(1, 95));  // 5 of 100 seconds
}

TEST(SavePace, NothingAskedForIsNeverDue) {
  EXPECT_FALSE(SavePace({.steps = 0, .seconds = 0}).is_due(100, 1e9));
}

TEST(TimeLimit, KeepsBackTheLongestStepAndASave) {
  TimeLimit limit(100);
  limit.note_step(10);
  limit.note_step(5);
  EXPECT_FALSE(limit.is_near(79));
  EXPECT_TRUE(limit.is_near(80)) << "a step, and as long for the first save";
  limit.note_save(2);
  EXPECT_FALSE(limit.is_near(87));
  EXPECT_TRUE(limit.is_near(88));
  EXPECT_TRUE(limit.is_near(68, 20)) << "with what is due before";
}

TEST(TimeLimit, OfNoneIsNeverNear) {
  TimeLimit limit(0);
  limit.note_step(10);
  EXPECT_FALSE(limit.is_near(1e9));
}

TEST(TimeLimit, AnEvaluationTakesAsLongAsItsStepsOrAsTheLastOne) {
  TimeLimit limit(100);
  limit.note_step(10);
  EXPECT_EQ(limit.evaluation(1.5), 15);
  limit.note_evaluation(4);
  EXPECT_EQ(limit.evaluation(1.5), 4);
}

void note_steps(EvalPace& pace, int count, double seconds) {
  for (int i = 0; i < count; ++i) pace.note_step(seconds);
}

TEST(EvalPace, TheFirstOneComesAtAStepThatNoClockDecides) {
  for (const double seconds : {0.0, 1e6}) {
    EvalPace pace(2);
    note_steps(pace, 97, seconds);
    EXPECT_FALSE(pace.is_due());
    note_steps(pace, 1, seconds);
    EXPECT_TRUE(pace.is_due());
  }
}

TEST(EvalPace, OthersTakeAFiftiethOfTheTimeAtMostWithTheirSaves) {
  EvalPace pace(2);
  note_steps(pace, 98, 1);
  pace.note_evaluation(2);
  EXPECT_FALSE(pace.is_due());
  note_steps(pace, 97, 1);
  EXPECT_FALSE(pace.is_due());
  note_steps(pace, 1, 1);
  EXPECT_TRUE(pace.is_due());  // 2 of 100 seconds
  pace.note_save(1);
  EXPECT_FALSE(pace.is_due());
  note_steps(pace, 49, 1);
  EXPECT_TRUE(pace.is_due());
}

}  // namespace
}  // namespace zero::launcher::pace_test
