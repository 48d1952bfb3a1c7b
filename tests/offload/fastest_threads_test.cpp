#include "offload/fastest_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "offload/affinity.h"
#include "offload/host_arena.h"

namespace zero::fastest_threads_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int> tried(const ThreadChoice& choice) {
  std::vector<int> threads;
  for (const ThreadRate& rate : choice.rates) threads.push_back(rate.threads);
  return threads;
}

TEST(ThreadsToTryTest, AreDoubledUpToAll) {
  EXPECT_THAT(threads_to_try(1), ElementsAre(1));
  EXPECT_THAT(threads_to_try(2), ElementsAre(1, 2));
  EXPECT_THAT(threads_to_try(6), ElementsAre(1, 2, 4, 6));
  EXPECT_THAT(threads_to_try(8), ElementsAre(1, 2, 4, 8));
}

TEST(FewestOfTheFastestTest, MoreThreadsMustBringMore) {
  EXPECT_EQ(fewest_of_the_fastest({{1, 6e9}, {2, 12e9}}), 2);
  EXPECT_EQ(fewest_of_the_fastest({{1, 6e9}, {2, 11e9}, {4, 11.5e9}}), 2);
  EXPECT_EQ(fewest_of_the_fastest({{1, 10e9}, {2, 10.5e9}, {4, 10.6e9}}), 2);
  EXPECT_EQ(fewest_of_the_fastest({{1, 12e9}, {2, 9e9}, {4, 6e9}}), 1);
  EXPECT_EQ(fewest_of_the_fastest({{1, 5e9}}), 1);
}

TEST(FewestOfTheFastestTest, NinetyFivePercentAreEnough) {
  EXPECT_EQ(fewest_of_the_fastest({{1, 95}, {2, 100}}), 1);
  EXPECT_EQ(fewest_of_the_fastest({{1, 94}, {2, 100}}), 2);
}

TEST(FastestThreadsTest, TriesTheCpusOfItsThread) {
  const int64_t before = live_bytes();
  const std::vector<int> cpus = current_affinity();
  const ThreadChoice choice = fastest_threads(1 << 20);
  if (cpus.size() == 1) {
    EXPECT_THAT(choice.rates, IsEmpty());
  } else {
    EXPECT_EQ(tried(choice), threads_to_try(static_cast<int>(cpus.size())));
    EXPECT_EQ(choice.threads, fewest_of_the_fastest(choice.rates));
  }
  for (const ThreadRate& rate : choice.rates) EXPECT_GT(rate.bytes_per_second, 1);
  EXPECT_EQ(live_bytes(), before);
}

TEST(FastestThreadsTest, OneCpuNeedsNoMeasurement) {
  std::thread([] {
    bind_process({current_affinity().front()});
    const ThreadChoice choice = fastest_threads(1 << 20);
    EXPECT_EQ(choice.threads, 1);
    EXPECT_THAT(choice.rates, IsEmpty());
  }).join();
}

}  // namespace
}  // namespace zero::fastest_threads_test
