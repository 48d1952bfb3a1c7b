#include <gtest/gtest.h>

#include "launcher/run/progress.h"

namespace zero::launcher::pace_test {
namespace {

TEST(SavePace, StepsAreTakenAtTheirWord) {
  SavePace pace({.steps = 10, .seconds = 0});
  pace.note_save(0, 1e6);
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

}  // namespace
}  // namespace zero::launcher::pace_test
