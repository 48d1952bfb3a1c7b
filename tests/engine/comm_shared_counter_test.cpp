#include <gtest/gtest.h>

#include <thread>

#include "engine/comm/shared_area.h"

namespace zero::comm_shared_counter_test {
namespace {

constexpr int kAMinute = 60'000;  // far longer than any of this takes

void await(SharedCounter& counter, uint32_t target) {
  while (!counter.has_reached(target)) EXPECT_TRUE(counter.sleep(target, kAMinute));
}

TEST(SharedCounterTest, CountsFromZero) {
  SharedCounter counter;
  EXPECT_TRUE(counter.has_reached(0));
  EXPECT_FALSE(counter.has_reached(1));
  counter.advance();
  EXPECT_TRUE(counter.has_reached(1));
  EXPECT_FALSE(counter.has_reached(2));
}

TEST(SharedCounterTest, TargetsBeforeTheWrapAroundAreReached) {
  SharedCounter counter;
  EXPECT_TRUE(counter.has_reached(~0u));  // what came just before 0
}

TEST(SharedCounterTest, ASleepTellsWhetherTheTimeRanOut) {
  SharedCounter counter;
  EXPECT_FALSE(counter.sleep(1, 1));
  counter.advance();
  EXPECT_TRUE(counter.sleep(1, kAMinute));
}

TEST(SharedCounterTest, AnAdvanceWakesTheSleeper) {
  SharedCounter ping, pong;
  std::jthread other([&] {
    for (uint32_t i = 1; i <= 1000; ++i) {
      await(ping, i);
      pong.advance();
    }
  });
  for (uint32_t i = 1; i <= 1000; ++i) {
    ping.advance();
    await(pong, i);
  }
}

}  // namespace
}  // namespace zero::comm_shared_counter_test
