#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
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

}  // namespace
}  // namespace zero::launcher::child_test
