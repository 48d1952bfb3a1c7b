#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/memory_file.h"
#include "engine/comm/shared_memory.h"
#include "engine/comm/thread_ranks.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero::comm_shared_memory_test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kBytesOfRank = 1 << 16;

template <class Play>
void on_ranks(int size, Play play) {
  auto ranks = make_thread_ranks(size);
  std::vector<std::jthread> threads;
  for (auto& rank : ranks) threads.emplace_back([&] { play(*rank); });
}

std::string text_at(const std::byte* bytes, int64_t length) {
  return {reinterpret_cast<const char*>(bytes), static_cast<size_t>(length)};
}

TEST(SharedMemory, EveryRankReadsWhatOneWrites) {
  on_ranks(3, [](Ranks& ranks) {
    SharedMemory memory(ranks, 3 * kBytesOfRank);
    EXPECT_EQ(memory.bytes(), 3 * kBytesOfRank);
    EXPECT_THAT(text_at(memory.view(), memory.bytes()), Each('\0'));
    std::memset(memory.data() + ranks.rank() * kBytesOfRank, 'a' + ranks.rank(),
                kBytesOfRank);
    ranks.barrier("written");
    EXPECT_EQ(text_at(memory.view(), memory.bytes()), std::string(kBytesOfRank, 'a') +
                                                          std::string(kBytesOfRank, 'b') +
                                                          std::string(kBytesOfRank, 'c'));
  });
}

TEST(SharedMemory, WhatIsWrittenToAViewIsItsRanksAlone) {
  on_ranks(2, [](Ranks& ranks) {
    SharedMemory memory(ranks, kBytesOfRank);
    ranks.barrier("made");
    if (ranks.rank() == 0) memory.view()[5] = std::byte{1};
    ranks.barrier("written");
    EXPECT_EQ(memory.view()[5], std::byte(ranks.rank() == 0));
    EXPECT_EQ(memory.data()[5], std::byte{0});
    memory.refresh_view();
    EXPECT_EQ(memory.view()[5], std::byte{0});
    ranks.barrier("read");
    if (ranks.rank() == 1) memory.data()[5] = std::byte{2};
    ranks.barrier("written to all");
    EXPECT_EQ(memory.view()[5], std::byte{2});
  });
}

TEST(SharedMemory, MoreThanThereIsIsRefusedOnAllRanks) {
  on_ranks(2, [](Ranks& ranks) {
    try {
      SharedMemory(ranks, int64_t{1} << 62);
      ADD_FAILURE() << ranks.rank();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kEnvironment);
      EXPECT_THAT(error.cure(), HasSubstr("one container"));
    }
  });
}

TEST(SharedMemory, RanksOfAHostCanShareAndOneAloneNeedNot) {
  on_ranks(4, [](Ranks& all) {
    EXPECT_TRUE(can_share_memory(all, all));
    EXPECT_TRUE(can_share_memory(*all.split(all.rank() / 2), all));
    EXPECT_FALSE(can_share_memory(*all.split(all.rank() / 3), all)) << "3 and 1";
  });
}

TEST(MemoryFile, IsOpenedByOtherProcesses) {
  MemoryTicket ticket;
  const auto memory = MemoryFile::create(kBytesOfRank, ticket).map();
  const pid_t child = fork();
  if (child == 0) {
    MemoryFile::open(ticket, kBytesOfRank).map().get()[7] = std::byte{3};
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(memory.get()[7], std::byte{3});
}

TEST(MemoryFile, AnotherFileOfTheSameNumberIsRefused) {
  MemoryTicket ticket;
  const auto memory = MemoryFile::create(kBytesOfRank, ticket).map();
  EXPECT_THROW(MemoryFile::open(ticket, 2 * kBytesOfRank), Error);
  ++ticket.words[2];
  EXPECT_THROW(MemoryFile::open(ticket, kBytesOfRank), Error);
}

}  // namespace
}  // namespace zero::comm_shared_memory_test
