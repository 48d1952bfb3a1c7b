#include "checkpoint/run_lock.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "support.h"

namespace zero::checkpoint::testing {
namespace {

using ::testing::HasSubstr;

class RunLockTest : public CheckpointTest {
 protected:
  // A holder on another machine, heard of `age` seconds ago.
  LockHolder far_holder(int64_t age, const std::string& job_id = "") {
    LockHolder holder = this_process(job_id);
    holder.host = "far-away";
    holder.boot_id = "another";
    holder.heartbeat -= age;
    return holder;
  }

  // A process of this machine that has ended.
  LockHolder dead_holder() {
    LockHolder holder = this_process("");
    holder.pid = ::fork();
    if (holder.pid == 0) ::_exit(0);
    ::waitpid(static_cast<pid_t>(holder.pid), nullptr, 0);
    return holder;
  }

  void leave(const LockHolder& holder) { write_file(lock, to_text(holder)); }

  std::string refusal(const std::string& job_id = "") {
    return error_of([&] { RunLock mine(run, job_id); });
  }

  const std::string lock = run + "/run.lock";
};

TEST_F(RunLockTest, ComesAndGoes) {
  {
    const RunLock mine(run, "job 7");
    const auto holder = parse_holder(read_file(lock));
    ASSERT_TRUE(holder);
    EXPECT_EQ(holder->pid, ::getpid());
    EXPECT_EQ(holder->job_id, "job 7");
    EXPECT_GT(holder->pid_start, 0);
  }
  EXPECT_TRUE(files_of(run).empty());
}

TEST_F(RunLockTest, ASecondJobIsRefusedByName) {
  const RunLock mine(run, "7");
  EXPECT_THAT(refusal("8"), HasSubstr("process " + std::to_string(::getpid()) + " on " +
                                      this_process("").host + ", job 7"));
  EXPECT_THAT(refusal("8"), HasSubstr("stop it, or choose another folder"));
  EXPECT_THAT(refusal("7"), HasSubstr("another job"));  // alive, for all we know
}

TEST_F(RunLockTest, AFarHolderIsBelievedForTwoMinutes) {
  leave(far_holder(kHeartbeatTimeoutSeconds - 30));
  EXPECT_THAT(refusal(), HasSubstr("far-away"));
  leave(far_holder(kHeartbeatTimeoutSeconds));
  EXPECT_NO_THROW(RunLock(run, ""));
}

TEST_F(RunLockTest, ADeadProcessHoldsNothing) {
  leave(dead_holder());
  EXPECT_NO_THROW(RunLock(run, ""));
}

TEST_F(RunLockTest, AProcessWithAnOldNumberIsAnother) {
  LockHolder holder = this_process("");
  holder.pid_start += 1;
  leave(holder);
  EXPECT_NO_THROW(RunLock(run, ""));
}

TEST_F(RunLockTest, OtherContainersProcessesCannotBeJudged) {
  LockHolder holder = dead_holder();
  holder.pid_namespace = "pid:[1]";
  leave(holder);
  refusal();
}

TEST_F(RunLockTest, OurOwnRequeuedJobGoesOn) {
  leave(far_holder(1, "42"));
  refusal("43");
  refusal("");
  EXPECT_NO_THROW(RunLock(run, "42"));
}

TEST_F(RunLockTest, ADamagedLockIsJudgedByItsAge) {
  write_file(lock, "{\"host\":");
  EXPECT_THAT(refusal(), HasSubstr("the lock is damaged"));
  const auto old =
      std::filesystem::file_time_type::clock::now() - std::chrono::minutes(3);
  std::filesystem::last_write_time(lock, old);
  EXPECT_NO_THROW(RunLock(run, ""));
}

TEST_F(RunLockTest, BeatingKeepsIt) {
  LockHolder self = far_holder(1000);
  RunLock mine(run, self);
  mine.beat();
  const auto holder = parse_holder(read_file(lock));
  ASSERT_TRUE(holder);
  EXPECT_GE(holder->heartbeat, self.heartbeat + 1000);
  EXPECT_THAT(refusal(), HasSubstr("far-away"));
}

TEST_F(RunLockTest, ALostLockIsNoticedAndLeftAlone) {
  auto lost = std::make_unique<RunLock>(run, far_holder(500));
  const RunLock mine(run, "");
  EXPECT_THAT(error_of([&] { lost->beat(); }), HasSubstr("taken over"));
  lost.reset();
  EXPECT_EQ(parse_holder(read_file(lock))->pid, ::getpid());
}

TEST_F(RunLockTest, ALinkIsNotFollowed) {
  write_file(run + "/outside", "keep");
  std::filesystem::create_symlink("outside", lock);
  refusal();
  EXPECT_EQ(read_file(run + "/outside"), "keep");
}

TEST_F(RunLockTest, NothingIsLeftWhenTheDiskIsFull) {
  FaultyIo io;
  io.fail_at = 1;
  io.error = ENOSPC;
  EXPECT_THAT(error_of([&] { RunLock mine(run, "", io); }), HasSubstr("No space left"));
  EXPECT_TRUE(files_of(run).empty());
}

}  // namespace
}  // namespace zero::checkpoint::testing
