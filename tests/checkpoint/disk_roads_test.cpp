#include "checkpoint/disk_roads.h"

#include <gtest/gtest.h>

namespace zero::checkpoint::disk_roads_test {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Take both roads, with so many seconds for a MiB of each.
void try_both(DiskRoads& roads, double direct, double cached) {
  for (int64_t at = 0; at < 2 * DiskRoads::kTrialBytes; at += kMiB) {
    const Road road = roads.next(kMiB);
    EXPECT_EQ(road, at < DiskRoads::kTrialBytes ? Road::kDirect : Road::kCached);
    roads.tell(road, kMiB, road == Road::kDirect ? direct : cached);
  }
}

TEST(DiskRoadsTest, TheFasterOneIsTakenOnceBothWere) {
  DiskRoads one, other;
  try_both(one, 1, 2);
  EXPECT_EQ(one.next(kMiB), Road::kDirect);
  try_both(other, 2, 1);
  EXPECT_EQ(other.next(kMiB), Road::kCached);
  EXPECT_EQ(other.next(kMiB), Road::kCached) << "it is remembered";
}

TEST(DiskRoadsTest, TheCacheIsTakenWhereBothAreTheSame) {
  DiskRoads roads;
  try_both(roads, 1, 1);
  EXPECT_EQ(roads.next(kMiB), Road::kCached);
}

TEST(DiskRoadsTest, BytesAreCountedNotReads) {
  DiskRoads roads;
  try_both(roads, 1, 2);
  roads.tell(Road::kCached, 1000 * kMiB, 1);  // which the disk had at hand
  EXPECT_EQ(roads.next(kMiB), Road::kCached);
}

TEST(DiskRoadsTest, ADiskHasOnesOfItsOwn) {
  const Folder here(ZERO_SOURCE_DIR "/tests/checkpoint");
  const File file = here.open("disk_roads_test.cpp");
  EXPECT_EQ(&DiskRoads::of(file), &DiskRoads::of(here.open("support.h")));
  EXPECT_NE(&DiskRoads::of(file), &DiskRoads::of(Folder("/proc").open("version")));
}

}  // namespace
}  // namespace zero::checkpoint::disk_roads_test
