#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/run_lock.h"

namespace zero::checkpoint::testing::lock_holder_test {
namespace {

LockHolder some_holder() {
  LockHolder holder;
  holder.host = "node";
  holder.machine_id = "m";
  holder.boot_id = "b";
  holder.pid_namespace = "pid:[1]";
  return holder;
}

TEST(LockHolder, NamesMayBeNoUtf8) {
  LockHolder holder = some_holder();
  holder.job_id = "job \xff";
  const auto again = parse_holder(to_text(holder));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->host, "node");
  EXPECT_NE(again->job_id, holder.job_id);
}

TEST(LifeOf, AnEarlierBootOfTheSameMachineIsOver) {
  LockHolder holder = some_holder();
  holder.boot_id = "a";
  EXPECT_EQ(life_of(holder, some_holder()), Life::kGone);
  holder.host = "another";
  EXPECT_EQ(life_of(holder, some_holder()), Life::kUnknown);
}

TEST(LifeOf, MachinesWithoutAnIdAreNotTheSame) {
  LockHolder self = some_holder(), holder = self;
  self.machine_id = holder.machine_id = "";
  holder.boot_id = "a";
  EXPECT_EQ(life_of(holder, self), Life::kUnknown);
}

// Killed, and not waited for.
TEST(LifeOf, AZombieIsGone) {
  const pid_t child = ::fork();
  if (child == 0) ::pause();
  LockHolder holder = this_process("");
  holder.pid = child;
  while (life_of(holder, holder) != Life::kAlive) ++holder.pid_start;  // a few ticks on
  ::kill(child, SIGKILL);
  siginfo_t ended{};
  ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
  EXPECT_EQ(life_of(holder, holder), Life::kGone);
  ::waitpid(child, nullptr, 0);
}

TEST(LifeOf, AProgramsNameMayHoldAnything) {
  char before[16] = {};
  ::prctl(PR_GET_NAME, before);
  ::prctl(PR_SET_NAME, ") Z 1 (");
  const LockHolder self = this_process("");
  EXPECT_EQ(life_of(self, self), Life::kAlive);
  ::prctl(PR_SET_NAME, before);
  EXPECT_EQ(life_of(self, self), Life::kAlive);
  EXPECT_EQ(this_process("").pid_start, self.pid_start);
}

}  // namespace
}  // namespace zero::checkpoint::testing::lock_holder_test
