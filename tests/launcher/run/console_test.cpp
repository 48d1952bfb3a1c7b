#include "launcher/run/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "launcher/process/stop.h"
#include "zero/errors.h"

namespace zero::launcher::console_test {
namespace {

// A pipe, and who writes to it as to stdout.
class ConsoleStream : public ::testing::Test {
 protected:
  ConsoleStream() {
    EXPECT_EQ(pipe(ends), 0);
    writer.reset(fdopen(ends[1], "w"));
    alarm(60);  // instead of a test that hangs
  }
  ~ConsoleStream() override {
    alarm(0);
    close(ends[0]);
  }
  // Until no byte more has room.
  void fill() {
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], "x", 1) == 1) {
    }
    fcntl(ends[1], F_SETFL, 0);
  }
  std::string read_to_end() {
    std::string text;
    char block[1000];
    for (ssize_t got; (got = read(ends[0], block, sizeof block)) > 0;)
      text.append(block, static_cast<size_t>(got));
    return text;
  }

  int ends[2] = {};
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> writer{nullptr, &std::fclose};
};

TEST_F(ConsoleStream, NothingIsLostWhileAReaderIsSlow) {
  const std::string text(300'000, 'a');
  std::jthread write([&] {
    write_out(writer.get(), text);
    writer.reset();
  });
  EXPECT_EQ(read_to_end(), text);
}

TEST_F(ConsoleStream, WhatNobodyTakesIsLostOnceASignalAsksToStop) {
  fill();
  catch_stop_signals();
  std::jthread ask([] { kill(getpid(), SIGTERM); });
  write_out(writer.get(), std::string(10'000, 'a'));
  EXPECT_EQ(stop_signal(), SIGTERM);
  catch_stop_signals();
  forget_stop_signals();
}

TEST_F(ConsoleStream, AReaderThatWentAwayStopsNobody) {
  std::signal(SIGPIPE, SIG_IGN);
  close(ends[0]);
  EXPECT_TRUE(write_out(writer.get(), "a"));
  std::signal(SIGPIPE, SIG_DFL);
}

TEST_F(ConsoleStream, AFullDiskIsNoReader) {
  writer.reset(std::fopen("/dev/full", "w"));
  EXPECT_FALSE(write_out(writer.get(), "a"));
}

TEST(ConsoleOutput, WhatAFullDiskDoesNotTakeIsAnError) {
  const auto print_to = [](const char* place) {
    std::freopen(place, "w", stdout);
    print_line("a");
    for (int i = 0; i < 9999; ++i) std::fputs("many", stdout);
    try {
      require_output("the result");
      _exit(0);
    } catch (const Error& error) {
      std::fputs(error.what(), stderr);
      _exit(static_cast<int>(error.code()));
    }
  };
  EXPECT_EXIT(print_to("/dev/full"), ::testing::ExitedWithCode(5), "cannot be written");
  EXPECT_EXIT(print_to("/dev/null"), ::testing::ExitedWithCode(0), "");
}

TEST_F(ConsoleStream, WhatIsToldIsSafeForATerminal) {
  ::testing::internal::CaptureStdout();
  tell("in \x1b[2Ja");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "in \\x1b[2Ja\n");
  ::testing::internal::CaptureStderr();
  warn("in \x1b[2Ja");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "zero: in \\x1b[2Ja\n");
}

}  // namespace
}  // namespace zero::launcher::console_test
