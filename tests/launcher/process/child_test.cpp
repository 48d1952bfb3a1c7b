#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/processes.h"
#include "launcher/process/process.h"
#include "launcher/process/stop.h"
#include "zero/errors.h"

namespace zero::launcher::child_test {
namespace {

ChildOutcome shell(const std::string& script, double seconds = 20) {
  std::vector<std::string> variables = process_environment();
  variables.push_back("ZERO_WORD=hello");
  return run_child({"sh", "-c", script}, variables, seconds);
}

TEST(Child, ItsWordsAndItsCodeComeBack) {
  const ChildOutcome outcome = shell("echo $ZERO_WORD; echo ill >&2; cat; exit 7");
  EXPECT_EQ(outcome.text, "hello\nill\n");
  EXPECT_EQ(outcome.code, 7);
  EXPECT_FALSE(outcome.is_late);
  EXPECT_EQ(shell("head -c 100000 /dev/zero").text.size(), 100000u);
}

TEST(Child, OneThatIsNotThereIsCode127) {
  EXPECT_EQ(run_child({"/no/such/program"}, {}, 5).code, 127);
}

TEST(Child, ASignalIsToldAsShellsDo) { EXPECT_EQ(shell("kill -9 $$").code, 128 + 9); }

TEST(Child, OneThatIsLateIsEndedWithItsGroup) {
  const ChildOutcome outcome = shell("sleep 100 & echo $!; wait", 0.2);
  EXPECT_TRUE(outcome.is_late);
  EXPECT_LT(outcome.seconds, 20);
  const pid_t other = std::stoi(outcome.text);
  EXPECT_TRUE(kill(other, 0) != 0 || state_of_process(other).is_dead());
}

TEST(Child, OneThatHearsNoSignalIsKilled) {
  EXPECT_EQ(shell("trap '' TERM; while :; do :; done", 0.2).code, 128 + 9);
}

TEST(Child, AskedToStopItEndsTheChildFirst) {
  catch_stop_signals();
  std::thread asker([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    raise(SIGTERM);
  });
  try {
    shell("sleep 100");
    ADD_FAILURE() << "nobody stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInterrupted);
  }
  asker.join();
  catch_stop_signals();  // forgets the one that came
  forget_stop_signals();
}

// In a process of its own, whose children are all known.
TEST(Child, OfBeforeIsLeftAloneWhenTheOthersAreKilled) {
  const auto kill_the_second = [] {
    const auto start = [] {
      const pid_t child = fork();
      if (child == 0) {
        sleep(100);
        _exit(0);
      }
      return child;
    };
    const pid_t first = start();
    const std::vector<int64_t> others = children_of(getpid());
    start();
    kill_descendants(others);
    const bool is_left = children_of(getpid()) == std::vector<int64_t>{first};
    kill(first, SIGKILL);
    std::exit(is_left ? 0 : 1);
  };
  EXPECT_EXIT(kill_the_second(), ::testing::ExitedWithCode(0), "");
}

// In a process of its own: a limit that was lowered stays.
TEST(OpenFiles, AreAllowedAsFarAsTheSystemDoes) {
  const auto with_limit = [](rlim_t soft, rlim_t hard) {
    const rlimit limit{soft, hard};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) std::exit(9);
    try {
      allow_open_files(70, "fewer ranks");
    } catch (const Error& error) {
      std::fputs(error.what(), stderr);
      std::exit(static_cast<int>(error.code()));
    }
    rlimit now{};
    getrlimit(RLIMIT_NOFILE, &now);
    std::exit(now.rlim_cur >= 70 ? 0 : 1);
  };
  EXPECT_EXIT(with_limit(30, 100), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(with_limit(80, 100), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(with_limit(30, 50), ::testing::ExitedWithCode(3), "50 files open");
}

}  // namespace
}  // namespace zero::launcher::child_test
