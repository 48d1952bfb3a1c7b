// Signals, the time limit, and what the banner says about them.
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "launcher/stop_command.h"
#include "launcher/stop_signals.h"
#include "launcher/time_limit.h"

namespace zero::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ExitedWithCode;
using testing::KilledBySignal;

class StopSignals : public testing::Test {
 protected:
  ~StopSignals() override { forget_stop_signals(); }
};

TEST_F(StopSignals, TheFirstIsNoted) {
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) {
    catch_stop_signals();
    EXPECT_EQ(stop_signal(), 0);
    raise(signal);
    raise(SIGUSR1);  // a duplicate
    EXPECT_EQ(stop_signal(), signal);
  }
}

TEST_F(StopSignals, TheSecondLeavesAtOnce) {
  const auto raise_two = [] {
    catch_stop_signals();
    raise(SIGUSR1);
    std::this_thread::sleep_for(600ms);
    raise(SIGTERM);
  };
  EXPECT_EXIT(raise_two(), ExitedWithCode(130), "");
}

TEST_F(StopSignals, ForgottenTheyEndTheProcess) {
  const auto raise_one = [] {
    catch_stop_signals();
    forget_stop_signals();
    raise(SIGTERM);
  };
  EXPECT_EXIT(raise_one(), KilledBySignal(SIGTERM), "");
}

TEST(TimeLimit, KeepsTheLongestStepAndASaveBack) {
  TimeLimit limit(100);
  EXPECT_FALSE(limit.is_near(99));
  limit.note_step(5);
  limit.note_step(3);
  EXPECT_FALSE(limit.is_near(89.9));
  EXPECT_TRUE(limit.is_near(90));  // two steps' time, as no save is known
  limit.note_save(1);
  EXPECT_FALSE(limit.is_near(93.9));
  EXPECT_TRUE(limit.is_near(94));
  limit.note_save(20);
  EXPECT_TRUE(limit.is_near(75));
}

TEST(TimeLimit, NoneIsNeverNear) {
  TimeLimit none(0);
  none.note_step(1e9);
  EXPECT_FALSE(none.is_near(1e9));
}

TEST(ProcessAge, CountsFromTheStart) {
  const double before = process_age();
  EXPECT_GT(before, 0);
  EXPECT_LT(before, 3600);
  std::this_thread::sleep_for(50ms);
  EXPECT_NEAR(process_age() - before, 0.05, 0.045);
}

TEST(StopCommand, ReachesAllRanks) {
  const Starter mpirun = {7, 5, "mpirun"}, shell = {7, 5, "bash"}, far = {7, 5, "orted"};
  const std::vector<std::string> ranks = {"OMPI_COMM_WORLD_SIZE=2"};
  const std::vector<std::string> slurm = {"SLURM_STEP_NUM_TASKS=2", "SLURM_JOB_ID=12",
                                          "SLURM_STEP_ID=3"};
  EXPECT_EQ(stop_command(shell, {}, "a"), "kill -USR1 7, or touch a/STOP");
  EXPECT_EQ(stop_command(mpirun, ranks, "a"), "kill -USR1 5, or touch a/STOP");
  EXPECT_EQ(stop_command(far, ranks, "a"), "touch a/STOP");
  EXPECT_EQ(stop_command({7, 5, "slurmstepd"}, slurm, "a"),
            "scancel --signal=USR1 12.3, or touch a/STOP");
}

TEST(StopCommand, KnowsItsStarter) {
  const Starter starter = starter_of_this_process();
  EXPECT_EQ(starter.pid, getpid());
  EXPECT_EQ(starter.parent, getppid());
  EXPECT_FALSE(starter.parent_name.empty());
}

}  // namespace
}  // namespace zero::launcher
