#include "launcher/bench/rounds.h"

#include <gmock/gmock.h>

#include <csignal>
#include <string>

#include "launcher/process/stop.h"
#include "zero/errors.h"

namespace zero::launcher::rounds_test {
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

TEST(Rounds, EndOnceASignalHasAskedToStop) {
  catch_stop_signals();
  int calls = 0;
  const auto stopped = [&] { return ++calls == 2 ? raise(SIGTERM) : 1.0; };
  EXPECT_THROW(alternate({stopped, stopped}, 3), Error);
  EXPECT_EQ(calls, 2);
  catch_stop_signals();  // forgets the one that came
  forget_stop_signals();
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

TEST(Rounds, APartThatNoiseMadeLongerThanTheWholeLeavesNothing) {
  EXPECT_THAT(beyond({5, 1}, {2, 3}), ElementsAre(3, 0));
}

TEST(Rounds, TimeIsNotNegative) {
  EXPECT_GE(seconds_of([] {}), 0);
}

TEST(BenchRow, TellsMediansBytesAndTheLimit) {
  const Row row = with_result({{"name", "update"}, {"threads", 2}}, {4, 2, 8},
                              8'000'000'000, "sweep", {2, 2, 2});
  EXPECT_EQ(row.dump(), R"({"name":"update","threads":2,"seconds":4.0,"gb_per_s":2.0,)"
                        R"("limit":"sweep","limit_seconds":2.0,"ratio_to_limit":0.5})");
}

TEST(BenchRow, WithoutBytesThereIsNoRate) {
  EXPECT_FALSE(with_result({}, {4}, 0, "none", {2}).contains("gb_per_s"));
}

TEST(BenchRow, ATableHasTheColumnsOfAllRowsAligned) {
  const Row sum = {{"name", "sum"}, {"threads", 1}, {"seconds", 0.123456}};
  const Row update = {{"name", "update"}, {"threads", 16}, {"gb_per_s", 20.5}};
  EXPECT_EQ(to_table({sum, update}),
            "name    threads  seconds  gb per s\n"
            "sum           1   0.1235\n"
            "update       16               20.5\n");
}

}  // namespace
}  // namespace zero::launcher::rounds_test
