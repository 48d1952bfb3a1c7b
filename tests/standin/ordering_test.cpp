#include "tests/standin/ordering.h"

#include <gmock/gmock.h>

namespace zero::testing::ordering_test {
namespace {

using standin::Access;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::byte memory[64];

Access reads(int begin = 0, int bytes = 8) {
  return {memory + begin, bytes, false, "slot", memory};
}
Access writes(int begin = 0, int bytes = 8) {
  return {memory + begin, bytes, true, "slot", memory};
}
Entry entry(const std::string& lane, std::vector<Access> accesses,
            std::vector<size_t> after = {}) {
  return {lane, "work", std::move(accesses), std::move(after)};
}

TEST(OrderingTest, ALaneDoesOneThingAfterTheOther) {
  EXPECT_THAT(find_races({{entry("a", {writes()}), entry("a", {reads()})}, {}}),
              IsEmpty());
}

TEST(OrderingTest, TwoLanesThatNothingOrdersRace) {
  const Schedule schedule = {{entry("a", {writes()}), entry("b", {reads()})}, {}};
  EXPECT_THAT(find_races(schedule), ElementsAre("a: work and b: work share slot"));
}

// Be it the later one that writes.
TEST(OrderingTest, WhoReadsRacesWithWhoWrites) {
  EXPECT_EQ(find_races({{entry("a", {reads()}), entry("b", {writes()})}, {}}).size(), 1u);
  EXPECT_EQ(find_races({{entry("a", {writes()}), entry("b", {writes()})}, {}}).size(),
            1u);
  EXPECT_THAT(find_races({{entry("a", {reads()}), entry("b", {reads()})}, {}}),
              IsEmpty());
}

TEST(OrderingTest, OnlyBytesThatAreSharedCount) {
  const auto races = [](Access one, Access other) {
    return find_races({{entry("a", {one}), entry("b", {other})}, {}}).size();
  };
  EXPECT_EQ(races(writes(0, 8), writes(8, 8)), 0u);
  EXPECT_EQ(races(writes(8, 8), writes(0, 8)), 0u);
  EXPECT_EQ(races(writes(0, 9), writes(8, 8)), 1u);
  EXPECT_EQ(races(writes(8, 8), writes(0, 9)), 1u);
  EXPECT_EQ(races(writes(0, 32), writes(8, 8)), 1u);
}

TEST(OrderingTest, AnEdgeOrders) {
  const Schedule schedule = {{entry("a", {writes()}), entry("b", {reads()}, {0})}, {}};
  EXPECT_THAT(find_races(schedule), IsEmpty());
  EXPECT_TRUE(Ordering(schedule).is_before(0, 1));
  EXPECT_FALSE(Ordering(schedule).is_before(1, 0));
}

// What comes behind in the other lane is not waited for.
TEST(OrderingTest, AnEdgeOrdersWhatLiesBeforeItsBeginAlone) {
  const Schedule schedule = {
      {entry("a", {}), entry("a", {writes()}), entry("b", {reads()}, {0})}, {}};
  EXPECT_EQ(find_races(schedule).size(), 1u);
}

TEST(OrderingTest, AndWhatLiesBehindItsEnd) {
  const Schedule schedule = {
      {entry("a", {writes()}), entry("b", {}, {0}), entry("b", {reads()})}, {}};
  EXPECT_THAT(find_races(schedule), IsEmpty());
}

TEST(OrderingTest, EdgesFollowOneAnother) {
  const Schedule schedule = {
      {entry("a", {writes()}), entry("b", {}, {0}), entry("c", {reads()}, {1})}, {}};
  EXPECT_THAT(find_races(schedule), IsEmpty());
}

// In any lane; what was queued before it waited is not.
TEST(OrderingTest, WhatTheTrainingThreadWaitedForIsOverForAllThatItQueuesThen) {
  const Schedule behind = {
      {entry("a", {writes()}), entry("training", {}, {0}), entry("b", {reads()})}, {}};
  EXPECT_THAT(find_races(behind), IsEmpty());
  const Schedule before = {
      {entry("a", {writes()}), entry("b", {reads()}), entry("training", {}, {0})}, {}};
  EXPECT_EQ(find_races(before).size(), 1u);
}

}  // namespace
}  // namespace zero::testing::ordering_test
