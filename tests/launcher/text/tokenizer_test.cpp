#include "launcher/text/tokenizer.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "launcher/process/stop.h"
#include "launcher/text/python_child.h"
#include "zero/errors.h"

namespace zero::launcher::tokenizer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A shell as the tokenizer's process: what it does once it was asked to open its file.
std::vector<std::string> shell(const std::string& answers) {
  return {"sh", "-c", "read -r question; echo '{\"vocab\": 9}'; " + answers};
}

std::string error_of(const std::vector<std::string>& command, ExitCode code) {
  try {
    Tokenizer("t.json", command).encode("a");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "no error";
}

TEST(Tokenizer, AsksInLinesOfJson) {
  Tokenizer tokenizer("t.json", shell("read -r q; case \"$q\" in *'\"a \\\"b\\\"\\n\"'*) "
                                      "echo '{\"ids\": [5, 1]}' ;; esac; "
                                      "read -r q; echo '{\"text\": \"\\u00e4\"}'"));
  EXPECT_THAT(tokenizer.encode("a \"b\"\n"), ElementsAre(5, 1));
  EXPECT_EQ(tokenizer.next(0, 7), "\xc3\xa4");
}

TEST(Tokenizer, TellsItsProblems) {
  EXPECT_THAT(
      error_of(shell("read -r q; echo '{\"problem\": \"no such\", \"where\": \"t.json\", "
                     "\"code\": 2}'"),
               ExitCode::kUsage),
      HasSubstr("no such"));
  EXPECT_THAT(
      error_of(shell("read -r q; echo '{\"problem\": \"none here\", \"where\": \"p\", "
                     "\"try\": \"pip\"}'"),
               ExitCode::kEnvironment),
      HasSubstr("pip"));
}

TEST(Tokenizer, NamesItsLastWordsWhenItDies) {
  const std::string error =
      error_of(shell("read -r q; echo 'Traceback:' >&2; echo 'it broke' >&2; exit 3"),
               ExitCode::kEnvironment);
  EXPECT_THAT(error, HasSubstr("has died"));
  EXPECT_THAT(error, HasSubstr("it broke"));
}

TEST(Tokenizer, ThatCannotStartOrPrintsGarbageIsAnError) {
  EXPECT_THAT(error_of({"/no/such/program"}, ExitCode::kEnvironment),
              HasSubstr("cannot be started"));
  EXPECT_THAT(error_of(shell("read -r q; echo garbage"), ExitCode::kEnvironment),
              HasSubstr("no JSON: garbage"));
  EXPECT_THAT(error_of(shell("read -r q; echo '{}'"), ExitCode::kEnvironment),
              HasSubstr("without ids"));
  EXPECT_THAT(
      error_of(shell("read -r q; echo '{\"ids\": \"a\"}'"), ExitCode::kEnvironment),
      HasSubstr("without ids"));
  EXPECT_THAT(
      error_of(shell("read -r q; echo '{\"problem\": 7}'"), ExitCode::kEnvironment),
      HasSubstr("7"));
}

TEST(Tokenizer, TakesTextAlone) {
  Tokenizer tokenizer("t.json", shell("read -r q"));
  EXPECT_THROW(tokenizer.encode("\xff"), Error);
}

TEST(Tokenizer, IsOfTheChosenPython) {
  EXPECT_EQ(child_command("/my/python").front(), "/my/python");
  EXPECT_NE(child_command("").front(), "");
  EXPECT_THAT(child_command("").back(), HasSubstr("child.py"));
  EXPECT_THAT(child_command(""), ::testing::Contains("utf8")) << "in any locale";
}

TEST(PythonChild, TellsNewsBeforeItsAnswer) {
  PythonChild child({"sh", "-c",
                     "read -r q; echo '{\"read\": 5}'; echo '{\"read\": 7}'; "
                     "echo '{\"tokens\": 9}'"});
  std::vector<int64_t> read;
  const auto answer = child.ask(
      {{"tokenize", 1}}, [&](const auto& news) { read.push_back(news.at("read")); });
  EXPECT_THAT(read, ElementsAre(5, 7));
  EXPECT_EQ(answer.at("tokens"), 9);
}

// A text that is stopped is told to its end.
TEST(Tokenizer, AnswersAQuestionOfAProgramThatStops) {
  catch_stop_signals();
  raise(SIGTERM);
  Tokenizer tokenizer("t.json", shell("read -r q; echo '{\"ids\": [7]}'"));
  EXPECT_THAT(tokenizer.encode("a"), ElementsAre(7));
  forget_stop_signals();
  catch_stop_signals();
  forget_stop_signals();
}

// More than a pipe holds, to a child that reads none of it.
TEST(PythonChildDeathTest, IsLeftWhenAskedToStopAlsoWhileItIsAsked) {
  const auto ask_and_leave = [] {
    catch_stop_signals();
    PythonChild child({"sleep", "60"});
    const std::jthread killer([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      kill(getpid(), SIGTERM);
    });
    try {
      child.ask({{"tokenize", std::string(1 << 22, 'a')}}, [](const auto&) {});
    } catch (const Error& error) {
      _exit(static_cast<int>(error.code()));
    }
  };
  EXPECT_EXIT(ask_and_leave(),
              ::testing::ExitedWithCode(static_cast<int>(ExitCode::kInterrupted)), "");
}

}  // namespace
}  // namespace zero::launcher::tokenizer_test
