#include "launcher/run/progress.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/seconds.h"

namespace zero::launcher::progress_test {
namespace {

constexpr int64_t kMiB = 1 << 20;

Activity::Progress done(int64_t mebibytes, uint64_t stretch = 1) {
  return {stretch, "loading a", mebibytes * kMiB, 100 * kMiB};
}

TEST(ProgressLine, TellsShareAmountAndWhatIsLeft) {
  EXPECT_EQ(progress_line(done(25), 10),
            "loading a: 25 %, 25.0 MiB of 100.0 MiB, 30s left");
  EXPECT_EQ(progress_line(done(0), 10), "loading a: 0 %, 0 B of 100.0 MiB");
}

TEST(ProgressLine, NothingIsDoneBeforeItIs) {
  const Activity::Progress nearly{1, "x", 999, 1000};
  EXPECT_TRUE(progress_line(nearly, 1).starts_with("x: 99 %"));
}

TEST(SecondsSince, AreNeverNegative) {
  EXPECT_EQ(seconds_since(std::chrono::steady_clock::now() + std::chrono::hours(1)), 0);
}

TEST(ProgressPace, ATerminalIsToldAfterASecondAndFromThenOnAlways) {
  ProgressPace pace(/*on_terminal=*/true);
  EXPECT_FALSE(pace.next(done(1), 5));
  EXPECT_FALSE(pace.next(done(2), 5.9));
  EXPECT_TRUE(pace.next(done(3), 6.1));
  EXPECT_TRUE(pace.next(done(4), 6.3));
  EXPECT_FALSE(pace.next({}, 6.5)) << "it is over";
  EXPECT_FALSE(pace.next(done(1, 2), 6.7)) << "another one";
}

TEST(ProgressPace, ElsewhereThereIsALineEveryHalfMinute) {
  ProgressPace pace(/*on_terminal=*/false);
  EXPECT_FALSE(pace.next(done(1), 0));
  EXPECT_FALSE(pace.next(done(2), 29));
  EXPECT_EQ(pace.next(done(50), 31), "loading a: 50 %, 50.0 MiB of 100.0 MiB, 31s left");
  EXPECT_FALSE(pace.next(done(60), 60));
  EXPECT_TRUE(pace.next(done(70), 61.5));
}

}  // namespace
}  // namespace zero::launcher::progress_test
