#include "launcher/bench/rounds.h"

#include <gmock/gmock.h>

#include <string>

namespace zero::launcher {
namespace {

using ::testing::ElementsAre;

TEST(Rounds, TheMedianIsTheMiddleOneOrTheMeanOfTwo) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({5, 1, 9}), 5);
  EXPECT_EQ(median({4, 1, 2, 100}), 3);
}

TEST(Rounds, AlternateAndLeaveOutTheOneThatWarmsUp) {
  std::string order;
  double time = 0;
  const auto contestant = [&](char name) {
    return [&, name] {
      order += name;
      return ++time;
    };
  };
  EXPECT_THAT(alternate({contestant('a'), contestant('b')}, 2),
              ElementsAre(ElementsAre(3, 5), ElementsAre(4, 6)));
  EXPECT_EQ(order, "ababab");
}

TEST(Rounds, ARatioIsTakenWithinItsRound) {
  // The machine was twice as slow in the second round, and busy in the third.
  EXPECT_EQ(ratio_to_limit({2, 4, 100}, {1, 2, 2}), 0.5);
  EXPECT_EQ(ratio_to_limit({1, 2}, {2, 4}), 2);
}

TEST(Rounds, AnUpdateHidesByWhatTheQueueSaves) {
  EXPECT_EQ(hidden_part({12, 24, 12}, {10.5, 21, 10}, {10, 20, 10}), 0.75);
}

TEST(Rounds, AreAddedOneByOne) {
  EXPECT_THAT((Seconds{1, 2} + (Seconds{8, 8} - Seconds{4, 2})), ElementsAre(5, 8));
}

TEST(Rounds, TimeIsNotNegative) {
  EXPECT_GE(seconds_of([] {}), 0);
}

}  // namespace
}  // namespace zero::launcher
