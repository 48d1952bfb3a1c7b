// Signals, the time limit, and what the banner says about them.
#include "launcher/process/stop.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "engine/comm/started_ranks.h"
#include "launcher/process/say_in_handler.h"
#include "launcher/run/progress.h"

namespace zero::launcher::stop_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

class StopSignals : public ::testing::Test {
 protected:
  // Whatever runs next has not been asked to stop.
  ~StopSignals() override {
    catch_stop_signals();
    forget_stop_signals();
  }
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

// Once it comes late enough to be no duplicate; how late that is, time alone tells.
TEST_F(StopSignals, TheSecondLeavesAtOnce) {
  const auto raise_until_gone = [] {
    catch_stop_signals();
    raise(SIGUSR1);
    const auto patience = std::chrono::steady_clock::now() + 1min;
    while (std::chrono::steady_clock::now() < patience) {
      raise(SIGTERM);
      std::this_thread::yield();
    }
  };
  EXPECT_EXIT((raise_until_gone(), std::exit(0)), ExitedWithCode(130), "");
}

// A scheduler that stops a job kills its starter at the end: the system tells the ranks,
// which are still saving.
TEST_F(StopSignals, TheDeathOfTheStarterIsNoSecondOne) {
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t starter = fork();
  if (starter == 0) {
    if (fork() == 0) {
      setenv(kStarterVariable, "a rank", 1);
      prctl(PR_SET_PDEATHSIG, SIGUSR1);
      catch_stop_signals();
      raise(SIGUSR1);
      std::this_thread::sleep_for(600ms);  // no duplicate any more
      const char ready = 'r', saved = 's';
      if (write(told[1], &ready, 1) != 1) _exit(1);
      const pid_t before = getppid();
      while (getppid() == before) std::this_thread::yield();
      std::this_thread::sleep_for(50ms);
      _exit(write(told[1], &saved, 1) == 1 ? 0 : 1);
    }
    pause();
    _exit(0);
  }
  close(told[1]);
  char word = 0;
  EXPECT_EQ(read(told[0], &word, 1), 1);
  kill(starter, SIGKILL);
  EXPECT_EQ(waitpid(starter, nullptr, 0), starter);
  EXPECT_EQ(read(told[0], &word, 1), 1) << "the rank has left at once";
  EXPECT_EQ(word, 's');
  close(told[0]);
}

TEST_F(StopSignals, ForgottenTheyEndTheProcess) {
  const auto raise_one = [] {
    catch_stop_signals();
    forget_stop_signals();
    raise(SIGTERM);
  };
  EXPECT_EXIT(raise_one(), KilledBySignal(SIGTERM), "");
}

TEST_F(StopSignals, UnderNohupATerminalMayClose) {
  const auto before = signal(SIGHUP, SIG_IGN);
  catch_stop_signals();
  raise(SIGHUP);
  EXPECT_EQ(stop_signal(), 0);
  signal(SIGHUP, before);
}

TEST_F(StopSignals, ThoseWhoCannotWaitAreTold) {
  const auto told_at = [](int signal) {
    catch_stop_signals();
    set_signal_note("a step is lost");
    ::testing::internal::CaptureStderr();
    raise(signal);
    set_signal_note("");
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(told_at(SIGTERM), "a step is lost\n");
  EXPECT_EQ(told_at(SIGINT), "a step is lost\n");
  EXPECT_EQ(told_at(SIGUSR1), "");
}

// A handler that waited for a reader would wait for ever.
TEST_F(StopSignals, WhatNobodyTakesIsNotSaid) {
  const auto say_to = [](int file, bool has_reader) {
    int ends[2];
    if (pipe(ends) != 0 || dup2(ends[1], file) != file) std::exit(1);
    fcntl(file, F_SETFL, O_NONBLOCK);
    while (write(file, "x", 1) == 1) {
    }
    fcntl(file, F_SETFL, 0);
    if (!has_reader) close(ends[0]);
    alarm(60);
    say_in_handler("a step is lost");
    std::exit(0);
  };
  EXPECT_EXIT(say_to(STDERR_FILENO, true), ExitedWithCode(0), "");
  EXPECT_EXIT(say_to(STDERR_FILENO, false), ExitedWithCode(0), "");
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

TEST(TimeLimit, ForeseesAnEvaluation) {
  TimeLimit limit(100);
  limit.note_step(5);
  EXPECT_EQ(limit.evaluation(4), 20) << "before the first, as steps take for as much";
  EXPECT_FALSE(limit.is_near(69, limit.evaluation(4)));
  EXPECT_TRUE(limit.is_near(70, limit.evaluation(4)));
  limit.note_evaluation(30);
  EXPECT_EQ(limit.evaluation(4), 30);
}

TEST(TimeLimit, NoneIsNeverNear) {
  TimeLimit none(0);
  none.note_step(1e9);
  EXPECT_FALSE(none.is_near(1e9));
}

const auto loaded_at = std::chrono::steady_clock::now();

// Between two readings lies as much as another clock says, whatever else the machine
// does.
TEST(ProcessAge, CountsFromTheStart) {
  const auto seconds_since = [](std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double of_this_file = seconds_since(loaded_at);
  const auto before_first = std::chrono::steady_clock::now();
  const double first = process_age();
  const auto after_first = std::chrono::steady_clock::now();
  EXPECT_GE(first, of_this_file) << "a process starts before it is loaded";
  EXPECT_LT(first, of_this_file + 3600);

  double at_least = 0, second = first, at_most = 0;
  while (at_most < 60 && second < first + 0.02) {
    at_least = seconds_since(after_first);
    second = process_age();
    at_most = seconds_since(before_first);
  }
  EXPECT_GE(second - first, at_least - 1e-3);
  EXPECT_LE(second - first, at_most + 1e-3);
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

TEST(StopCommand, AnMpirunThatDoesNotHearSigtermWaits) {
  Starter own = {7, 5, "mpirun"};
  EXPECT_TRUE(is_impatient(own));
  own.parent_is_shielded = true;
  EXPECT_FALSE(is_impatient(own));
  EXPECT_EQ(stop_command(own, {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=0"}, "r"),
            "kill -USR1 5, or touch r/STOP");
}

TEST(StopCommand, KnowsItsStarter) {
  const Starter starter = starter_of_this_process();
  EXPECT_EQ(starter.pid, getpid());
  EXPECT_EQ(starter.parent, getppid());
  EXPECT_FALSE(starter.parent_name.empty());
}

}  // namespace
}  // namespace zero::launcher::stop_test
