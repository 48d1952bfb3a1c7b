#include "launcher/process/kept_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "launcher/plan/run_plan.h"

namespace zero::launcher::kept_memory_test {
namespace {

const int64_t kPage = sysconf(_SC_PAGESIZE);

TEST(KeptMemory, LendsWholePagesThatTouchNothingElse) {
  KeptMemory memory(8 * kPage);
  std::byte* const first = memory.lend(1);
  std::byte* const second = memory.lend(kPage + 1);
  EXPECT_EQ(second - first, kPage);
  EXPECT_EQ(memory.use().lent, 3 * kPage);
  EXPECT_EQ(memory.lend(0) - second, 2 * kPage);
}

TEST(KeptMemory, KnowsItsOwn) {
  KeptMemory memory(2 * kPage);
  std::byte* const block = memory.lend(kPage);
  const int other = 0;
  EXPECT_TRUE(memory.has(block));
  EXPECT_TRUE(memory.has(block + 2 * kPage - 1));
  EXPECT_FALSE(memory.has(block + 2 * kPage));
  EXPECT_FALSE(memory.has(block - 1));
  EXPECT_FALSE(memory.has(&other));
}

TEST(KeptMemory, WhatComesBackIsLentAgainBeforeFreshPages) {
  KeptMemory memory(16 * kPage);
  std::byte* const first = memory.lend(4 * kPage);
  memory.lend(kPage);
  EXPECT_EQ(memory.take_back(first), 4 * kPage);
  EXPECT_EQ(memory.use().kept, 4 * kPage);
  EXPECT_EQ(memory.lend(3 * kPage), first);
  EXPECT_EQ(memory.use().kept, kPage);
  EXPECT_EQ(memory.lend(kPage), first + 3 * kPage);
  EXPECT_EQ(memory.use().kept, 0);
  EXPECT_EQ(memory.use().returned, 0);
}

TEST(KeptMemory, TheSmallestKeptBlockThatSufficesIsLent) {
  KeptMemory memory(16 * kPage);
  std::byte* const large = memory.lend(4 * kPage);
  memory.lend(kPage);
  std::byte* const small = memory.lend(2 * kPage);
  memory.lend(kPage);
  memory.take_back(large);
  memory.take_back(small);
  EXPECT_EQ(memory.lend(2 * kPage), small);
  EXPECT_EQ(memory.lend(2 * kPage), large);
}

TEST(KeptMemory, NeighboursJoinOnBothSides) {
  KeptMemory memory(16 * kPage);
  std::byte* const blocks[] = {memory.lend(kPage), memory.lend(kPage), memory.lend(kPage),
                               memory.lend(kPage)};
  memory.take_back(blocks[0]);
  memory.take_back(blocks[2]);
  memory.take_back(blocks[1]);
  EXPECT_EQ(memory.lend(3 * kPage), blocks[0]);
  EXPECT_EQ(memory.use().kept, 0);
}

TEST(KeptMemory, NoMorePagesAreHeldThanWereEverLent) {
  KeptMemory memory(64 * kPage);
  std::byte* const first = memory.lend(3 * kPage);
  memory.lend(kPage);
  std::byte* const second = memory.lend(2 * kPage);
  memory.lend(kPage);
  std::memset(first, 1, 3 * kPage);
  std::memset(second, 1, 2 * kPage);
  memory.take_back(first);
  memory.take_back(second);
  std::byte* const large = memory.lend(4 * kPage);
  const KeptMemory::Use use = memory.use();
  EXPECT_EQ(use.lent, 6 * kPage);
  EXPECT_EQ(use.most, 7 * kPage);
  EXPECT_EQ(use.kept, kPage);
  EXPECT_EQ(use.returned, 4 * kPage);
  EXPECT_EQ(std::count(second, second + 2 * kPage, std::byte{0}), 2 * kPage);
  EXPECT_EQ(std::count(first, first + 3 * kPage, std::byte{0}), 2 * kPage);
  EXPECT_EQ(large, second + 3 * kPage);
}

TEST(KeptMemory, AKeptBlockThatEndsAtFreshPagesTakesThoseThatItLacks) {
  KeptMemory memory(64 * kPage);
  std::byte* const small = memory.lend(2 * kPage);
  memory.lend(kPage);
  std::byte* const last = memory.lend(4 * kPage);
  std::memset(last, 1, 4 * kPage);
  memory.take_back(small);
  memory.take_back(last);
  EXPECT_EQ(memory.lend(5 * kPage), last);
  EXPECT_EQ(std::count(last, last + 4 * kPage, std::byte{1}), 4 * kPage);
  EXPECT_EQ(memory.use().kept, kPage);
  EXPECT_EQ(memory.use().returned, kPage);  // of the small one
  EXPECT_EQ(memory.use().most, 7 * kPage);
  EXPECT_EQ(memory.lend(2 * kPage), last + 5 * kPage);
}

// As tensors of one step after another: the largest comes last, behind gaps.
TEST(KeptMemory, ALargeBlockAgainTakesNoMoreFreshPagesThanGapsHold) {
  KeptMemory memory(1024 * kPage);
  int64_t before = 0;
  for (int step = 0; step < 5; ++step) {
    std::vector<std::byte*> lent;
    for (const int64_t pages : {7, 3, 9, 2, 8}) {
      std::byte* const passing = memory.lend(pages * kPage);
      lent.push_back(memory.lend((pages + 2) * kPage));
      memory.take_back(passing);
    }
    lent.push_back(memory.lend(100 * kPage));
    for (std::byte* const block : lent) memory.take_back(block);
    const int64_t returned = memory.use().returned;
    if (step > 1) {
      EXPECT_LE(returned - before, (7 + 3 + 9 + 2 + 8) * kPage);
    }
    before = returned;
  }
}

TEST(KeptMemory, NothingIsLentWhereNoRoomIsLeft) {
  KeptMemory memory(2 * kPage);
  EXPECT_EQ(memory.lend(3 * kPage), nullptr);
  EXPECT_EQ(memory.use().lent, 0);
  std::byte* const block = memory.lend(2 * kPage);
  EXPECT_EQ(memory.lend(1), nullptr);
  memory.take_back(block);
  EXPECT_EQ(memory.lend(2 * kPage), block);
}

TEST(KeptMemory, WithoutAddressesNothingIsLent) {
  KeptMemory memory(int64_t{1} << 60);
  EXPECT_EQ(memory.lend(1), nullptr);
  EXPECT_FALSE(memory.has(nullptr));
}

TEST(KeptMemory, TheKernelHasWhatIsNotHeld) {
  constexpr int64_t kMany = 4096;
  KeptMemory memory(8 * kMany * kPage);
  const int64_t before = own_bytes("self");
  const auto lend = [&](int64_t pages) {
    std::byte* const block = memory.lend(pages * kPage);
    std::memset(block, 1, pages * kPage);
    return block;
  };
  std::byte* const block = lend(kMany);
  EXPECT_GE(own_bytes("self") - before, kMany * kPage / 2);
  memory.take_back(block);
  lend(2 * kMany);
  const int64_t held = own_bytes("self") - before;
  EXPECT_LT(held, 5 * kMany * kPage / 2);
}

// Against a list of what is lent: blocks never overlap, and keep their values.
TEST(KeptMemory, RandomBlocksKeepTheirValues) {
  std::mt19937 draw(7);
  KeptMemory memory(4096 * kPage);
  struct Lent {
    std::byte* start;
    int64_t bytes;
    std::byte value;
  };
  std::vector<Lent> all;
  int64_t most = 0;
  for (int turn = 0; turn < 4000; ++turn) {
    if (!all.empty() && draw() % 2) {
      std::swap(all[draw() % all.size()], all.back());
      const Lent& last = all.back();
      EXPECT_EQ(std::count(last.start, last.start + last.bytes, last.value), last.bytes);
      memory.take_back(last.start);
      all.pop_back();
    } else {
      const int64_t bytes = (1 + draw() % 9) * kPage;
      std::byte* const start = memory.lend(bytes);
      ASSERT_NE(start, nullptr);
      all.push_back({start, bytes, std::byte(draw() % 256)});
      std::memset(start, static_cast<int>(all.back().value), bytes);
    }
    int64_t lent = 0;
    for (const Lent& each : all) lent += each.bytes;
    most = std::max(most, lent);
    const KeptMemory::Use use = memory.use();
    ASSERT_EQ(use.lent, lent);
    ASSERT_EQ(use.most, most);
    ASSERT_LE(use.lent + use.kept, most);
  }
}

}  // namespace
}  // namespace zero::launcher::kept_memory_test
