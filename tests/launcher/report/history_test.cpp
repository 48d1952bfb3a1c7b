#include "launcher/report/history.h"

#include <gmock/gmock.h>

#include <cmath>
#include <sstream>

namespace zero::launcher::history_test {
namespace {

using ::testing::ElementsAre;

std::string step(int64_t number, double loss = 1, const std::string& more = "") {
  return R"({"type":"step","step":)" + std::to_string(number) + R"(,"loss":)" +
         std::to_string(loss) + R"(,"tokens":10)" + more + "}\n";
}

std::string other(const std::string& type, int64_t number, const std::string& more = "") {
  return R"({"type":")" + type + R"(","step":)" + std::to_string(number) + more + "}\n";
}

const std::string kRun = R"({"type":"run","world":{"size":2},"wall":100})"
                         "\n";

History read(const std::string& text) {
  std::istringstream log(text);
  return read_history(log);
}

// "1=4.5 2=gap"
std::string told(const Series& series) {
  std::ostringstream text;
  for (const Point& point : series) {
    text << (text.tellp() > 0 ? " " : "") << point.x << "=";
    std::isfinite(point.y) ? text << point.y : text << "gap";
  }
  return text.str();
}

TEST(History, HasWhatARunTold) {
  const History history = read(
      kRun + step(1, 3) + step(2, 2.5) + other("eval", 2, R"(,"loss":2.75)") +
      other("sample", 2, R"(,"prompt":"a","text":"b")") + other("save", 2) +
      other("memory", 2, R"(,"process_peak":7)") + other("end", 2, R"(,"wall":107)"));
  EXPECT_EQ(told(history.series(&StepRow::loss)), "1=3 2=2.5");
  EXPECT_EQ(told(history.series(&StepRow::loss_scale)), "");
  ASSERT_EQ(history.evaluations.size(), 1u);
  EXPECT_EQ(history.evaluations[0].step, 2);
  EXPECT_EQ(history.evaluations[0].loss, 2.75);
  ASSERT_EQ(history.samples.size(), 1u);
  EXPECT_EQ(history.samples[0].prompt + history.samples[0].text, "ab");
  ASSERT_EQ(history.starts.size(), 1u);
  EXPECT_EQ(history.starts[0].record["world"]["size"], 2);
  EXPECT_EQ(history.memory["process_peak"], 7);
  EXPECT_TRUE(history.has_ended);
  EXPECT_EQ(history.last_wall, 107);
  EXPECT_EQ(history.num_bad_lines, 0);
}

TEST(History, MemoryIsThatOfTheLastStart) {
  const History history = read(
      kRun + step(1, 3) + other("memory", 1, R"(,"process_peak":7)") + kRun + step(2, 3));
  EXPECT_TRUE(history.memory.is_null());
}

TEST(History, StepsThatAreToldAgainReplaceTheOthers) {
  const History history =
      read(kRun + step(1) + step(2) + other("eval", 2) + step(3) + other("eval", 3) +
           other("sample", 3) + other("stop", 3, R"(,"reason":"a signal")") + kRun +
           other("resume", 2) + step(3, 9) + step(4, 8));
  EXPECT_EQ(told(history.series(&StepRow::loss)), "1=1 2=1 3=9 4=8");
  EXPECT_EQ(history.evaluations.size(), 1u) << "that of step 2";
  EXPECT_TRUE(history.samples.empty());
  ASSERT_EQ(history.starts.size(), 2u);
  EXPECT_EQ(history.starts[0].step, 0);
  EXPECT_EQ(history.starts[1].step, 2);
  EXPECT_EQ(history.stopped_by, "") << "it went on";
}

TEST(History, ARunThatGoesOnHasNotEnded) {
  const std::string ended = kRun + step(1) + other("end", 1);
  EXPECT_TRUE(read(ended).has_ended);
  EXPECT_FALSE(read(ended + kRun + other("resume", 1) + step(2)).has_ended);
}

TEST(History, AnEvaluationThatIsToldAgainCountsOnce) {
  const History history =
      read(step(1) + other("eval", 1, R"(,"loss":1)") + other("eval", 1, R"(,"loss":2)"));
  ASSERT_EQ(history.evaluations.size(), 1u);
  EXPECT_EQ(history.evaluations[0].loss, 2);
}

TEST(History, ALineHasGapsWhereThereIsNoNumber) {
  const std::string skipped = R"(,"skipped":true)";
  const History history =
      read(step(1) + step(2) + R"({"type":"step","step":2,"loss":null,"skipped":true})" +
           "\n" + step(3) + step(3, 7, skipped) + step(4) + step(7) +
           R"({"type":"step","step":8,"loss":null})" + "\n");
  EXPECT_EQ(told(history.series(&StepRow::loss)),
            "1=1 2=1 2.5=gap 3=1 4=1 6.5=gap 7=1 8=gap");
  EXPECT_THAT(history.skipped_at(), ElementsAre(2.5, 3.5));
}

TEST(History, LinesThatAreNoRecordsAreCounted) {
  const History history = read(
      "hello\n[1]\n{}\n\n{\"type\":3}\n{\"type\":\"step\"}\n{\"type\":\"step\",\"step\":-"
      "1}\n"
      "{\"type\":\"eval\",\"step\":\"2\"}\n{\"type\":\"step\",\"step\":1e3}\n"
      "{\"type\":\"gap\",\"lost\":3}\n{\"type\":\"new kind\",\"step\":1}\n" +
      step(1) + "\xff\n" + R"({"type":"step","step":2,"loss":)");
  EXPECT_EQ(history.num_bad_lines, 10);
  EXPECT_EQ(history.num_lost, 3);
  EXPECT_EQ(history.steps.size(), 1u) << "the last line is being written";
}

TEST(History, WhatWasNotMeasuredIsNotDrawn) {
  const History history = read(step(1, 1, R"(,"host_bytes_free":-1)") +
                               step(2, 1, R"(,"host_bytes_free":-1)"));
  EXPECT_EQ(told(history.series(&StepRow::host_gib_free)), "");
}

}  // namespace
}  // namespace zero::launcher::history_test
