#include "engine/watch/activity.h"

#include <gtest/gtest.h>

namespace zero::activity_test {
namespace {

TEST(Activity, TellsWhereTheProcessIs) {
  EXPECT_EQ(Activity::here().state().where, "between two steps");
  const Activity::Stretch forward("forward");
  {
    const Activity::Stretch unit("blocks.3");
    EXPECT_EQ(Activity::here().state().where, "forward, blocks.3");
    EXPECT_EQ(Activity::here().state().call, 0u);
    const Activity::Stretch gather("all_gather 'blocks.4'", {}, /*waits=*/true);
    EXPECT_EQ(Activity::here().state().where,
              "all_gather 'blocks.4' (forward, blocks.3)");
  }
  EXPECT_EQ(Activity::here().state().where, "forward");
}

TEST(Activity, EachCallHasANumberAndTheOldestIsTold) {
  uint64_t first = 0;
  {
    const Activity::Stretch one("one", {}, true);
    first = Activity::here().state().call;
    const Activity::Stretch two("two", {}, true);
    EXPECT_EQ(Activity::here().state().call, first);
  }
  const Activity::Stretch again("one", {}, true);
  EXPECT_NE(Activity::here().state().call, first);
}

TEST(Activity, WorkIsSigned) {
  const uint64_t before = Activity::here().state().signs;
  Activity::here().sign();
  EXPECT_EQ(Activity::here().state().signs, before + 1);
  { const Activity::Stretch stretch("a unit"); }
  EXPECT_EQ(Activity::here().state().signs, before + 3) << "its begin and its end";
}

TEST(Activity, ProgressIsThatOfTheOutermostStretchThatExpectsSomething) {
  EXPECT_FALSE(Activity::here().progress());
  Activity::here().sign(1000);  // before it began
  Activity::Stretch load("loading a");
  EXPECT_FALSE(Activity::here().progress());
  load.expect(50);
  Activity::here().sign(20);
  {
    Activity::Stretch inner("first values");
    inner.expect(5);
    const auto progress = Activity::here().progress();
    ASSERT_TRUE(progress);
    EXPECT_EQ(progress->what, "loading a");
    EXPECT_EQ(progress->done_bytes, 20);
    EXPECT_EQ(progress->total_bytes, 50);
  }
  Activity::here().sign(40);
  EXPECT_EQ(Activity::here().progress()->done_bytes, 50) << "never more than all";
}

}  // namespace
}  // namespace zero::activity_test
