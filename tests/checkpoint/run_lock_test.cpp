#include "checkpoint/run_lock.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <utility>

#include "checkpoint/format.h"
#include "support.h"

namespace zero::checkpoint::testing::run_lock_test {
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

// Another job is a moment faster.
class RacingIo : public Io {
 public:
  std::function<void()> before_rename = [] {}, before_link = [] {};

  int rename(int folder, const char* from, const char* to) override {
    std::exchange(before_rename, [] {})();
    return Io::rename(folder, from, to);
  }
  int link(int folder, const char* from, const char* to) override {
    std::exchange(before_link, [] {})();
    return Io::link(folder, from, to);
  }
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
  EXPECT_THAT(refusal("8"), HasSubstr("stop it (kill"));
  EXPECT_THAT(refusal("7"), HasSubstr("another job"));  // alive, for all we know
}

TEST_F(RunLockTest, AFarHolderIsBelievedUntilOneSaysOtherwise) {
  leave(far_holder(1000000));
  EXPECT_THAT(refusal(), HasSubstr("far-away, heard of 1000000 seconds ago"));
  EXPECT_THAT(refusal(), HasSubstr("the same command with --take-over"));
  EXPECT_NO_THROW(RunLock(run, "", TakeOver::kAlways));
}

TEST_F(RunLockTest, AClockAheadWasHeardOfJustNow) {
  leave(far_holder(-1000));
  EXPECT_THAT(refusal(), HasSubstr("far-away, heard of 0 seconds ago"));
}

TEST_F(RunLockTest, AProcessThatWasNeverThereHoldsNothing) {
  LockHolder holder = dead_holder();
  holder.pid_start = 0;
  EXPECT_EQ(life_of(holder, this_process("")), Life::kGone);
}

class NoLinkIo : public Io {
 public:
  explicit NoLinkIo(int error) : error_(error) {}
  int link(int, const char*, const char*) override {
    errno = error_;
    return -1;
  }

 private:
  const int error_;
};

TEST_F(RunLockTest, NotEveryFileSystemHasLinks) {
  for (const int error : {EPERM, ENOSYS, EOPNOTSUPP, EMLINK}) {
    NoLinkIo io(error);
    const RunLock mine(run, "7", TakeOver::kFromTheDead, io);
    EXPECT_NO_THROW(mine.check()) << error;
    EXPECT_THAT(refusal(), HasSubstr("job 7"));
  }
  NoLinkIo broken(EIO);
  EXPECT_THAT(error_of([&] { RunLock(run, "", TakeOver::kFromTheDead, broken); }),
              HasSubstr("cannot create"));
  EXPECT_TRUE(files_of(run).empty());
}

TEST_F(RunLockTest, NobodyTakesALockFromALivingProcess) {
  LockHolder self = this_process("");
  self.heartbeat -= 1000000;  // stopped since, or the clock has jumped
  leave(self);
  EXPECT_THAT(refusal(), HasSubstr("it is alive: stop it (kill " +
                                   std::to_string(::getpid()) + ")"));
  EXPECT_THAT(error_of([&] { RunLock(run, "", TakeOver::kAlways); }),
              HasSubstr("it is alive"));
}

TEST_F(RunLockTest, AMachineThatHasStartedAnewHoldsNothing) {
  LockHolder holder = this_process("");
  if (holder.machine_id.empty()) GTEST_SKIP() << "this system has no machine-id";
  holder.boot_id = "an earlier one";
  leave(holder);
  EXPECT_NO_THROW(RunLock(run, ""));
  holder.machine_id = "another machine of the same name";
  leave(holder);
  refusal();
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

TEST_F(RunLockTest, ADamagedLockIsTakenByWhoSaysSo) {
  write_file(lock, "{\"host\":");
  EXPECT_THAT(refusal(), HasSubstr("the lock is damaged"));
  EXPECT_NO_THROW(RunLock(run, "", TakeOver::kAlways));
}

TEST_F(RunLockTest, WhatIsNoFileStays) {
  const auto expect_stays = [&] {
    const auto status = std::filesystem::symlink_status(lock).type();
    for (const TakeOver take_over : {TakeOver::kFromTheDead, TakeOver::kAlways}) {
      EXPECT_THAT(error_of([&] { RunLock(run, "", take_over); }),
                  HasSubstr("run.lock: is no lock that zero has made"));
      EXPECT_EQ(std::filesystem::symlink_status(lock).type(), status);
      EXPECT_EQ(files_of(run).size(), 1u);
    }
    std::filesystem::remove(lock);
  };
  std::filesystem::create_symlink("nowhere", lock);
  expect_stays();
  std::filesystem::create_directory(lock);
  expect_stays();
  ASSERT_EQ(::mkfifo(lock.c_str(), 0600), 0);
  expect_stays();
}

// A container was killed and started again: the kernel has let go of its file.
TEST_F(RunLockTest, AnotherContainersLockFallsWithItsProcess) {
  LockHolder holder = this_process("");
  holder.pid_namespace = "pid:[1]";
  {
    const RunLock held(run, holder, TakeOver::kFromTheDead);
    EXPECT_THAT(refusal(), HasSubstr("another job"));
    EXPECT_THAT(error_of([&] { RunLock(run, "", TakeOver::kAlways); }),
                HasSubstr("in its container"))
        << "the kernel says that it is alive";
    EXPECT_NO_THROW(held.check());
  }
  holder.holds_file = true;
  leave(holder);
  EXPECT_NO_THROW(RunLock(run, ""));
}

// Nobody here can ask the kernel of another machine.
TEST_F(RunLockTest, AFarLockOnAFileIsBelieved) {
  LockHolder holder = far_holder(1);
  holder.holds_file = true;
  leave(holder);
  EXPECT_THAT(refusal(), HasSubstr("far-away"));
}

TEST_F(RunLockTest, WhoeverComesSecondIsRefused) {
  RacingIo io;
  std::unique_ptr<RunLock> first;
  io.before_link = [&] { first = std::make_unique<RunLock>(run, "7"); };
  EXPECT_THAT(error_of([&] { RunLock(run, "", TakeOver::kFromTheDead, io); }),
              HasSubstr("job 7"));
  EXPECT_NO_THROW(first->check());
}

TEST_F(RunLockTest, ALivingLockThatWasMovedAsideIsPutBack) {
  leave(dead_holder());
  RacingIo io;
  std::unique_ptr<RunLock> first;
  io.before_rename = [&] { first = std::make_unique<RunLock>(run, "7"); };
  EXPECT_THAT(error_of([&] { RunLock(run, "", TakeOver::kFromTheDead, io); }),
              HasSubstr("job 7"));
  EXPECT_NO_THROW(first->check());
  EXPECT_TRUE(leftovers_of(run).empty());
}

TEST_F(RunLockTest, IsThereWholeOrNotAtAll) {
  for (int call = 0;; ++call) {
    const pid_t child = ::fork();
    if (child == 0) {
      FaultyIo io;
      io.fail_at = call;
      io.is_killing = true;
      auto* leaked = new RunLock(run, "", TakeOver::kFromTheDead, io);
      static_cast<void>(leaked);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (std::filesystem::exists(lock)) {
      EXPECT_TRUE(parse_holder(read_file(lock))) << call;
    }
    { const RunLock next(run, ""); }  // the dead one holds nothing
    for (const std::string& name : files_of(run)) EXPECT_TRUE(is_temporary(name)) << name;
    if (WEXITSTATUS(status) == 0) break;
  }
}

TEST_F(RunLockTest, BeatingKeepsIt) {
  LockHolder self = far_holder(1000);
  RunLock mine(run, self, TakeOver::kFromTheDead);
  mine.beat();
  const auto holder = parse_holder(read_file(lock));
  ASSERT_TRUE(holder);
  EXPECT_GE(holder->heartbeat, self.heartbeat + 1000);
  EXPECT_THAT(refusal(), HasSubstr("far-away"));
}

TEST_F(RunLockTest, ALostLockIsNoticedAndLeftAlone) {
  auto lost = std::make_unique<RunLock>(run, far_holder(500), TakeOver::kFromTheDead);
  const RunLock mine(run, "", TakeOver::kAlways);
  EXPECT_THAT(error_of([&] { lost->check(); }), HasSubstr("taken over"));
  EXPECT_THAT(error_of([&] { lost->rename("a", "b"); }), HasSubstr("taken over"));
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
  EXPECT_THAT(error_of([&] { RunLock mine(run, "", TakeOver::kFromTheDead, io); }),
              HasSubstr("No space left"));
  EXPECT_TRUE(files_of(run).empty());
}

}  // namespace
}  // namespace zero::checkpoint::testing::run_lock_test
