// The suite of comm_suite.cpp with ranks as processes that this program starts itself:
// comm_started_test RANKS. Exits with 1 if any rank saw a failure.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "engine/comm/hang_post.h"
#include "engine/comm/started_ranks.h"
#include "tests/engine/comm_suite.h"

namespace zero::comm_started_test {
namespace {

// Of all tests; made once a process.
Ranks* world = nullptr;

Backend started_backend(const std::string& name) {
  return {name, world->size(),
          [](const Backend::Rank& body) { run_rank(body, *world->duplicate()); }};
}

class StartedRanksTest : public ::testing::Test {};

TEST_F(StartedRanksTest, AreOfOneHost) {
  EXPECT_EQ(world->local_rank(), world->rank());
  EXPECT_EQ(world->local_size(), world->size());
  EXPECT_EQ(world->rank(), started_rank()->rank);
}

TEST_F(StartedRanksTest, TheirWatchesReachEachOther) {
  const auto post = make_shared_hang_post(*world);
  const int rank = world->rank(), size = world->size();
  for (int peer = 0; peer < size; ++peer) {
    HangMessage answer{HangMessage::Kind::kAnswer, static_cast<uint64_t>(rank), 1, {}};
    post->send(peer, answer);
    answer.signs = 99;
    post->send(peer, answer);  // the first one is still there
    post->send(peer, {});
  }
  world->barrier("all have sent");
  std::vector<int> answers(size), questions(size);
  while (const auto letter = post->receive()) {
    const auto& [sender, message] = *letter;
    if (message.kind == HangMessage::Kind::kQuestion) ++questions[sender];
    if (message.kind != HangMessage::Kind::kAnswer) continue;
    ++answers[sender];
    EXPECT_EQ(message.signs, static_cast<uint64_t>(sender));
    EXPECT_EQ(message.is_waiting, 1);
  }
  EXPECT_EQ(answers, std::vector<int>(size, 1));
  EXPECT_EQ(questions, std::vector<int>(size, 1));
  world->barrier("all have received");
}

INSTANTIATE_TEST_SUITE_P(Started, RanksTest,
                         ::testing::ValuesIn(std::vector{started_backend("started")}),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Started, CollectivesTest,
                         ::testing::ValuesIn(std::vector{started_backend("started")}),
                         [](const auto& info) { return info.param.name; });

// The ranks, with slots of so many bytes; true: all is well.
bool run_ranks(char** words, int size, int64_t slot_bytes) {
  const StarterMemory memory(size, slot_bytes);
  for (int rank = 0; rank < size; ++rank) {
    if (fork() != 0) continue;
    const std::string variable = memory.variable_for(rank);
    const size_t name_end = variable.find('=');
    setenv(variable.substr(0, name_end).c_str(), variable.c_str() + name_end + 1, 1);
    execv("/proc/self/exe", words);
    _exit(127);
  }
  bool is_good = true;
  for (int status = 0; wait(&status) > 0;) is_good = is_good && status == 0;
  return is_good;
}

}  // namespace
}  // namespace zero::comm_started_test

int main(int argc, char** argv) {
  using namespace zero;
  if (const auto self = started_rank()) {
    const auto world = join_started_ranks(*self);
    comm_started_test::world = world.get();
    ::testing::InitGoogleTest(&argc, argv);
    return run_tests_of_rank(*world);
  }
  const int size = argc > 1 ? std::atoi(argv[1]) : 2;
  const bool is_good = comm_started_test::run_ranks(argv, size, 0) &&
                       comm_started_test::run_ranks(argv, size, 4096);
  return is_good ? 0 : 1;
}
