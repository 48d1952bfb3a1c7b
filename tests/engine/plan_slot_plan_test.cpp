#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/plan/slot_plan.h"

namespace zero {

static bool operator==(const SlotPlan::Class& a, const SlotPlan::Class& b) {
  return a.slot_bytes == b.slot_bytes && a.num_slots == b.num_slots;
}

namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Class = SlotPlan::Class;

TEST(SlotPlan, EqualUsersShareTheSlots) {
  const SlotPlan plan = make_slot_plan({0, 100, 100, 100}, 2);
  EXPECT_THAT(plan.classes, ElementsAre(Class{100, 2}));
  EXPECT_THAT(plan.class_of, ElementsAre(-1, 0, 0, 0));
  EXPECT_EQ(plan.bytes(), 200);
}

TEST(SlotPlan, OneLargeUserDoesNotSetTheSizeOfEverySlot) {
  const SlotPlan plan = make_slot_plan({1000, 10, 10, 10, 10}, 2);
  EXPECT_THAT(plan.classes, ElementsAre(Class{1000, 1}, Class{10, 2}));
  EXPECT_THAT(plan.class_of, ElementsAre(0, 1, 1, 1, 1));
  EXPECT_EQ(plan.bytes(), 1020);
}

TEST(SlotPlan, NeighboursInSizeStayTogether) {
  const SlotPlan plan = make_slot_plan({99, 100, 98, 100, 97}, 2);
  EXPECT_THAT(plan.classes, ElementsAre(Class{100, 2}));
}

TEST(SlotPlan, OfEqualPlansThatWithFewerClassesIsTaken) {
  EXPECT_THAT(make_slot_plan({2, 1, 1}, 2).classes, ElementsAre(Class{2, 2}));
}

TEST(SlotPlan, UsersThatAreAllHeldHaveTheirOwnSizes) {
  EXPECT_EQ(make_slot_plan({7, 9, 9, 100}, 4).bytes(), 7 + 9 + 9 + 100);
}

TEST(SlotPlan, NobodyNeedsNothing) {
  const SlotPlan plan = make_slot_plan({0, 0}, 2);
  EXPECT_THAT(plan.classes, IsEmpty());
  EXPECT_THAT(plan.class_of, ElementsAre(-1, -1));
  EXPECT_EQ(plan.bytes(), 0);
}

// Each fits, as many as may be held at once find slots, and no partition of the sorted
// sizes into classes takes less.
TEST(SlotPlan, IsTheSmallestOfAll) {
  const std::vector<int64_t> sizes = {64, 3, 17, 64, 9, 33, 8, 17};
  std::vector<int64_t> sorted = sizes;
  std::sort(sorted.rbegin(), sorted.rend());
  for (int num_slots = 1; num_slots <= 8; ++num_slots) {
    const SlotPlan plan = make_slot_plan(sizes, num_slots);
    std::vector<int> users(plan.classes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_LE(sizes[i], plan.classes[plan.class_of[i]].slot_bytes);
      ++users[plan.class_of[i]];
    }
    for (size_t c = 0; c < users.size(); ++c)
      EXPECT_EQ(plan.classes[c].num_slots, std::min(users[c], num_slots));

    int64_t least = 1 << 30;
    for (int cuts = 0; cuts < 1 << 7; ++cuts) {
      int64_t bytes = 0;
      for (size_t begin = 0, end = 1; begin < sorted.size(); begin = end++) {
        while (end < sorted.size() && !(cuts >> (end - 1) & 1)) ++end;
        bytes += sorted[begin] * std::min<int64_t>(end - begin, num_slots);
      }
      least = std::min(least, bytes);
    }
    EXPECT_EQ(plan.bytes(), least) << num_slots;
  }
}

TEST(SlotPlan, NeighboursOfTwoSizesHaveASlotOfEach) {
  const std::vector<int64_t> halves = {4, 8, 4, 8, 4, 8};
  EXPECT_THAT(make_slot_plan(halves, 2).classes, ElementsAre(Class{8, 2}));
  EXPECT_THAT(make_slot_plan(halves, 2, AtOnce::kNeighbours).classes,
              ElementsAre(Class{8, 1}, Class{4, 1}));
  EXPECT_THAT(make_slot_plan(halves, 3, AtOnce::kNeighbours).classes,
              ElementsAre(Class{8, 3}));
  EXPECT_THAT(make_slot_plan(halves, 1, AtOnce::kNeighbours).classes,
              ElementsAre(Class{8, 1}));
}

TEST(SlotPlan, EndsThatAreNoNeighboursShareASlot) {
  EXPECT_THAT(
      make_slot_plan({100, 10, 0, 10, 10, 10, 100}, 2, AtOnce::kNeighbours).classes,
      ElementsAre(Class{100, 1}, Class{10, 2}));
  EXPECT_THAT(make_slot_plan({100, 0, 100}, 2, AtOnce::kNeighbours).classes,
              ElementsAre(Class{100, 2}));
}

// Embedding and head beside halves of layers of other sizes.
TEST(SlotPlan, NeighboursTakeSlotsInTurnWhereThatIsLess) {
  const SlotPlan plan =
      make_slot_plan({5, 4, 8, 0, 4, 8, 4, 8, 5}, 2, AtOnce::kNeighbours);
  EXPECT_THAT(plan.classes, ElementsAre(Class{8, 1}, Class{5, 1}));
  EXPECT_THAT(plan.class_of, ElementsAre(0, 1, 0, -1, 1, 0, 1, 0, 1));
}

// The slots of each class suffice for any neighbours, and one less does not.
TEST(SlotPlan, OfNeighboursHasWhatTheyNeed) {
  const std::vector<int64_t> sizes = {64, 3, 17, 64, 9, 33, 8, 17};
  for (int num = 1; num <= 8; ++num) {
    const SlotPlan plan = make_slot_plan(sizes, num, AtOnce::kNeighbours);
    EXPECT_LE(plan.bytes(), make_slot_plan(sizes, num).bytes());
    std::vector<int> most(plan.classes.size());
    for (size_t begin = 0; begin + num <= sizes.size(); ++begin) {
      std::vector<int> held(plan.classes.size());
      for (int i = 0; i < num; ++i) ++held[plan.class_of[begin + i]];
      for (size_t c = 0; c < held.size(); ++c) most[c] = std::max(most[c], held[c]);
    }
    for (size_t c = 0; c < most.size(); ++c)
      EXPECT_EQ(plan.classes[c].num_slots, most[c]) << num;
  }
}

TEST(SlotPlan, JoinedUsersKeepTheirClasses) {
  const SlotPlan joined =
      join(make_slot_plan({100, 0, 100}, 1), make_slot_plan({0, 100, 0}, 2));
  EXPECT_EQ(joined.bytes(), 200);
  EXPECT_EQ(joined.class_of, (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(join(make_slot_plan({0}, 1), make_slot_plan({0}, 2)).class_of,
            std::vector<int>{-1});
}

}  // namespace
}  // namespace zero
