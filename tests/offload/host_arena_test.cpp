#include "offload/host_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

#include "offload/thread_pool.h"

namespace zero::host_arena_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const HostMemoryError& error) {
    return error.what();
  }
  return "";
}

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 64 == 0; }

TEST(HostArenaTest, APlanOfPaddedSizesFitsExactly) {
  const std::vector<int64_t> sizes{1, 64, 65, 0, 100003, 4};
  int64_t plan = 0;
  for (const int64_t bytes : sizes) plan += HostArena::padded(bytes);

  HostArena arena("masters", plan);
  for (const int64_t bytes : sizes)
    EXPECT_TRUE(is_aligned(arena.allocate("piece", bytes)));
  EXPECT_EQ(arena.capacity_bytes(), plan);
  EXPECT_EQ(arena.used_bytes(), plan);
  EXPECT_THROW(arena.allocate("one more", 1), HostMemoryError);
}

TEST(HostArenaTest, PaddedRoundsUpTo64) {
  EXPECT_EQ(HostArena::padded(0), 0);
  EXPECT_EQ(HostArena::padded(1), 64);
  EXPECT_EQ(HostArena::padded(64), 64);
  EXPECT_EQ(HostArena::padded(65), 128);
}

TEST(HostArenaTest, PiecesAreZeroAndApart) {
  HostArena arena("state", 4096);
  float* first = arena.allocate_array<float>("first", 10);
  float* second = arena.allocate_array<float>("second", 20);
  EXPECT_GE(second, first + 10);
  EXPECT_THAT(std::vector<float>(second, second + 20), Each(0.0f));
  std::fill_n(first, 10, 1.0f);
  EXPECT_THAT(std::vector<float>(second, second + 20), Each(0.0f));
}

TEST(HostArenaTest, ExhaustionNamesArenaPieceNeedAndRest) {
  HostArena arena("moments", 192);
  arena.allocate("exp_avg", 100);
  EXPECT_THAT(error_of([&] { arena.allocate("exp_avg_sq", 65); }),
              AllOf(HasSubstr("\"moments\""), HasSubstr("\"exp_avg_sq\""),
                    HasSubstr("needs 128 bytes"), HasSubstr("64 of 192")));
  EXPECT_EQ(arena.used_bytes(), 128) << "a refused allocation takes nothing";
}

TEST(HostArenaTest, NothingIsAValidPlace) {
  HostArena empty("empty", 0);
  EXPECT_EQ(empty.capacity_bytes(), 0);
  EXPECT_NE(empty.allocate("nothing", 0), nullptr);
}

TEST(HostArenaTest, AMappingThatFailsTellsBytesAndCure) {
  const int64_t before = live_bytes();
  const int64_t bytes = int64_t{1} << 60;
  EXPECT_THAT(error_of([&] { HostArena arena("huge", bytes); }),
              AllOf(HasSubstr("\"huge\""), HasSubstr(std::to_string(bytes)),
                    HasSubstr("Cannot allocate memory"), HasSubstr("ulimit -v")));
  EXPECT_EQ(live_bytes(), before);
}

TEST(HostArenaTest, ImpossibleSizesThrow) {
  HostArena arena("state", 64);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_THROW(HostArena("negative", -1), std::invalid_argument);
  EXPECT_THROW(arena.allocate("negative", -1), std::invalid_argument);
  EXPECT_THROW(arena.allocate("more than all", kMost), std::invalid_argument);
  for (const int64_t numel : {kMost / 2, kMost / 2 + 2})  // times 4: -4, and 4
    EXPECT_THROW(arena.allocate_array<float>("overflow", numel), std::invalid_argument);
  EXPECT_THROW(arena.allocate_array<float>("negative", -5), std::invalid_argument);
}

TEST(HostArenaTest, LiveBytesCountArenasThatLive) {
  const int64_t before = live_bytes();
  {
    HostArena first("first", 1000);
    HostArena second("second", 64);
    EXPECT_EQ(live_bytes() - before, HostArena::padded(1000) + 64);
  }
  EXPECT_EQ(live_bytes(), before);
}

TEST(HostArenaTest, ADeadArenaGivesItsPagesBack) {
  const auto is_mapped = [](std::byte* page) {
    unsigned char is_resident = 0;
    return mincore(page, 1, &is_resident) == 0;
  };
  auto arena = std::make_unique<HostArena>("short", 1 << 20);
  std::byte* const first = arena->allocate("first", 1 << 20);
  EXPECT_TRUE(is_mapped(first));
  arena.reset();
  EXPECT_FALSE(is_mapped(first));
}

}  // namespace
}  // namespace zero::host_arena_test
