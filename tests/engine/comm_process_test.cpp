// Ranks as forked processes, without MPI: what a rank sees when another one dies.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/comm/neighbours.h"
#include "engine/comm/shared_transport.h"
#include "zero/errors.h"

namespace zero::comm_process_test {
namespace {

using ::testing::HasSubstr;

class ProcessTest : public ::testing::Test {
 protected:
  static constexpr int64_t kSlotBytes = 4096;
  static constexpr int64_t kBytes = 1 << 20;

  // Fork rank 1, which runs `body` and ends without a word; we are rank 0.
  void fork_rank(const std::function<void(Transport&)>& body) {
    memory_ = neighbours_->create(SharedArea::bytes_for(2, kSlotBytes), ticket_);
    transport_ = make_shared_transport(neighbours_, area(memory_), 0);
    child_ = fork();
    if (child_ != 0) return;
    auto memory = neighbours_->open(ticket_, SharedArea::bytes_for(2, kSlotBytes));
    const auto transport = make_shared_transport(neighbours_, area(memory), 1);
    body(*transport);
    _exit(0);
  }
  void TearDown() override {
    if (child_ > 0) waitpid(child_, nullptr, 0);
  }

  static SharedArea area(std::shared_ptr<std::byte> memory) {
    return SharedArea(std::move(memory), 2, kSlotBytes);
  }
  static RankCall call(uint64_t sequence) {
    return make_call(sequence, Operation::kAllGather, 0, kBytes, "blocks.0");
  }
  static std::string gather(Transport& transport, uint64_t sequence) {
    const std::string shard(kBytes, static_cast<char>('a' + transport.rank()));
    std::string full(2 * kBytes, '.');
    transport.all_gather(call(sequence), shard.data(), full.data(), kBytes);
    return full;
  }

  std::shared_ptr<Neighbours> neighbours_ = make_process_neighbours();
  std::shared_ptr<std::byte> memory_;
  MemoryTicket ticket_;
  std::unique_ptr<Transport> transport_;
  pid_t child_ = 0;
};

TEST_F(ProcessTest, GathersBetweenProcesses) {
  fork_rank([](Transport& transport) { gather(transport, 0); });
  EXPECT_EQ(gather(*transport_, 0), std::string(kBytes, 'a') + std::string(kBytes, 'b'));
}

TEST_F(ProcessTest, ADeadRankIsNoticed) {
  fork_rank([](Transport& transport) { gather(transport, 0); });
  gather(*transport_, 0);
  try {
    gather(*transport_, 1);
    FAIL() << "rank 1 is dead";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
    EXPECT_THAT(error.problem(),
                HasSubstr("rank 1 (pid " + std::to_string(child_) + ") is gone"));
    EXPECT_THAT(error.where(), HasSubstr("all_gather 'blocks.0'"));
  }
}

TEST_F(ProcessTest, ARankThatDiesInTheMiddleIsNoticed) {
  fork_rank([](Transport& transport) {
    std::string shard(kBytes, 'b');
    transport.all_gather(call(0), shard.data(), nullptr,
                         kBytes);  // faults while it reads
  });
  EXPECT_THROW(gather(*transport_, 0), Error);
}

TEST_F(ProcessTest, WhoHasNotComeIsNotWaitedForOnceTheStarterIsGone) {
  int told[2], begun[2];
  ASSERT_EQ(pipe(told) + pipe(begun), 0);
  child_ = fork();
  if (child_ == 0) {
    if (fork() > 0) {
      char byte;
      _exit(static_cast<int>(read(begun[0], &byte, 1)) - 1);
    }
    const auto neighbours = make_process_neighbours();
    const auto memory = neighbours->create(SharedArea::bytes_for(2, kSlotBytes), ticket_);
    const auto transport = make_shared_transport(neighbours, area(memory), 0);
    std::string problem = "nothing";
    if (write(begun[1], ".", 1) != 1) _exit(1);
    try {
      gather(*transport, 0);
    } catch (const Error& error) {
      problem = error.problem();
    }
    _exit(static_cast<int>(write(told[1], problem.data(), problem.size())));
  }
  close(told[1]);
  char problem[200] = {};
  EXPECT_GT(read(told[0], problem, sizeof(problem) - 1), 0);
  EXPECT_THAT(problem, HasSubstr("rank 1 has not come"));
  for (const int end : {told[0], begun[0], begun[1]}) close(end);
}

TEST_F(ProcessTest, AStrangersTicketIsRefused) {
  auto memory = neighbours_->create(4096, ticket_);
  ticket_.words[2] += 1;  // another file under the same number
  EXPECT_THROW(neighbours_->open(ticket_, 4096), Error);
}

TEST_F(ProcessTest, MemoryOfAnotherSizeIsRefused) {
  auto memory = neighbours_->create(4096, ticket_);
  EXPECT_NO_THROW(neighbours_->open(ticket_, 4096));
  EXPECT_THROW(neighbours_->open(ticket_, 8192), Error);  // would fault behind its end
}

TEST_F(ProcessTest, ALivingProcessIsNotGone) {
  EXPECT_EQ(neighbours_->reason_gone(neighbours_->self()), "");
  Identity reused = neighbours_->self();
  reused.start_time -= 1;
  EXPECT_THAT(neighbours_->reason_gone(reused), HasSubstr("is gone"));
  reused.start_time = 0;  // it could not read its own
  EXPECT_EQ(neighbours_->reason_gone(reused), "");
}

}  // namespace
}  // namespace zero::comm_process_test
