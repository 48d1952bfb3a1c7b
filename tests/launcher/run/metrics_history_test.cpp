#include "launcher/run/metrics_history.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/launcher/settings/configs.h"

namespace zero::launcher::metrics_history_test {
namespace {

const std::string kWall = ",\"wall\":1.5}\n";

std::string step(int64_t number, const std::string& more = "") {
  return R"({"type":"step","step":)" + std::to_string(number) + more + kWall;
}

std::string save(int64_t number, int64_t batches) {
  return R"({"type":"save","step":)" + std::to_string(number) + R"(,"batches":)" +
         std::to_string(batches) + kWall;
}

std::string saving(int64_t number, int64_t batches) {
  return R"({"type":"saving","step":)" + std::to_string(number) + R"(,"batches":)" +
         std::to_string(batches) + kWall;
}

std::string eval(int64_t number) {
  return R"({"type":"eval","step":)" + std::to_string(number) + kWall;
}

const std::string kRun = "{\"type\":\"run\"}\n";
const std::string kSkipped = ",\"skipped\":true";

// What is left of a log.
std::string cut_jsonl(const std::string& text, int64_t step, int64_t num_batches) {
  const TempFolder folder;
  folder.write("metrics.jsonl", text);
  cut_metrics(folder.path(""), step, num_batches);
  return folder.read("metrics.jsonl");
}

TEST(CutJsonl, LaterStepsGoAndRunsStay) {
  const std::string before = kRun + step(1) + step(2) + eval(2) + save(2, 2);
  const std::string after = step(3) + eval(3) + kRun + step(4) + save(4, 4);
  EXPECT_EQ(cut_jsonl(before + after, 2, 2), before + kRun);
}

// A sample is drawn before the save of its step, as evaluations are made.
TEST(CutJsonl, SamplesAndMovementsOfLaterStepsGo) {
  for (const std::string type : {"sample", "masters"}) {
    const auto told = [&](int64_t number) {
      return R"({"type":")" + type + R"(","step":)" + std::to_string(number) + kWall;
    };
    const std::string before = step(1) + step(2) + told(2) + save(2, 2) + told(2);
    EXPECT_EQ(cut_jsonl(before + step(3) + told(3) + save(3, 3), 2, 2), before);
  }
}

TEST(CutJsonl, NothingGoesWhereNothingIsLater) {
  const std::string text = kRun + step(1) + step(2) + save(2, 2) + eval(2);
  EXPECT_EQ(cut_jsonl(text, 2, 2), text);
}

TEST(CutJsonl, AStepSkippedAfterTheSaveGoes) {
  const std::string before = step(1) + step(1, kSkipped) + save(1, 2);
  EXPECT_EQ(cut_jsonl(before + step(1, kSkipped), 1, 2), before);
}

// A save is told of where it was asked for and, some steps later, once it is there.
TEST(CutJsonl, StepsBesideASaveGoAndItsRecordStays) {
  const std::string before = step(1) + step(2) + saving(2, 2);
  EXPECT_EQ(cut_jsonl(before + step(3) + save(2, 2) + step(4) + saving(4, 4), 2, 2),
            before + save(2, 2));
  EXPECT_EQ(cut_jsonl(before + step(3), 2, 2), before);
  const std::string failed = R"({"type":"save_failed","step":3)" + kWall;
  EXPECT_EQ(cut_jsonl(before + save(2, 2) + step(3) + failed, 2, 2), before + save(2, 2));
  EXPECT_EQ(cut_jsonl(before + step(2, kSkipped) + save(2, 2), 2, 2),
            before + save(2, 2));
}

// The same step was saved before and after a batch that was skipped.
TEST(CutJsonl, TheSaveIsTheOneOfItsBatches) {
  const std::string before = step(1) + save(1, 1);
  const std::string after = step(1, kSkipped) + save(1, 2);
  EXPECT_EQ(cut_jsonl(before + after, 1, 1), before);
  EXPECT_EQ(cut_jsonl(before + after, 1, 2), before + after);
}

TEST(CutJsonl, LinesThatWereLostBehindTheSaveAreDoneAgain) {
  const std::string gap = "{\"type\":\"gap\",\"lost\":2}\n";
  EXPECT_EQ(cut_jsonl(step(1) + gap + save(1, 1) + gap, 1, 1),
            step(1) + gap + save(1, 1));
  EXPECT_EQ(cut_jsonl(step(1) + gap + step(2), 1, 1), step(1) + gap)
      << "nobody knows where the save was";
}

TEST(CutJsonl, WithoutTheSaveTheStepsNumberDecides) {
  const std::string before = step(1) + step(2);
  EXPECT_EQ(cut_jsonl(before + step(3) + save(3, 3), 2, 2), before);
  EXPECT_EQ(cut_jsonl(kRun + step(1) + step(0, kSkipped), -1, 0), kRun);
}

TEST(CutJsonl, ForeignLinesStayAndTornOnesGo) {
  EXPECT_EQ(cut_jsonl("hello\n[1]\n" + step(1) + R"({"type":"st)", 1, 1),
            "hello\n[1]\n" + step(1));
}

// All of the save's record is there but the end of its line.
TEST(CutJsonl, ATornSaveDoesNotMarkWhereToCut) {
  std::string torn = save(2, 2);
  torn.pop_back();
  EXPECT_EQ(cut_jsonl(step(1) + step(2) + torn, 2, 2), step(1) + step(2));
}

TEST(CutJsonl, OnlyTheEndIsRead) {
  std::string old;
  for (int number = 1; number <= 5000; ++number) old += step(number) + "no record\n";
  const std::string before = old + save(5000, 5000), wide(200000, 'x');
  EXPECT_EQ(cut_jsonl(before + kRun + wide + "\n" + step(5001) + eval(5001) + kRun + "{",
                      5000, 5000),
            before + kRun + wide + "\n" + kRun);
  EXPECT_EQ(cut_jsonl(old + step(5001), 5000, 5000), old);
}

TEST(CutJsonl, AnEmptyLineAndNothingAtAll) {
  EXPECT_EQ(cut_jsonl("", 1, 1), "");
  EXPECT_EQ(cut_jsonl("\n\n" + step(2) + "\n", 1, 1), "\n\n\n");
  EXPECT_EQ(cut_jsonl("{\"typ", 1, 1), "");
}

// Of another tool, which may go on with it.
TEST(CutJsonl, ATornLineOfOthersStays) {
  EXPECT_EQ(cut_jsonl("theirs", 1, 1), "theirs");
  EXPECT_EQ(cut_jsonl(step(1) + step(2) + "theirs", 1, 1), step(1) + "theirs");
}

// Who is killed meanwhile leaves the log as it was: no line is ever written over another.
TEST(CutJsonl, LinesThatMoveDoSoInACopy) {
  const TempFolder folder;
  const std::string text = step(1) + save(1, 1) + step(2) + kRun + step(3);
  folder.write("metrics.jsonl", text);
  std::filesystem::create_hard_link(folder.path("metrics.jsonl"), folder.path("before"));
  cut_metrics(folder.path(""), 1, 1);
  EXPECT_EQ(folder.read("metrics.jsonl"), step(1) + save(1, 1) + kRun);
  EXPECT_EQ(folder.read("before"), text);
}

TEST(LastSaveSeconds, AreTheNewestSaves) {
  const TempFolder folder;
  EXPECT_EQ(last_save_seconds(folder.path("")), -1);
  const auto took = [](const char* seconds) {
    return R"({"type":"save","step":1,"seconds":)" + std::string(seconds) + kWall;
  };
  folder.write("metrics.jsonl", took("1.5") + took("2.5") + step(2) + saving(2, 2));
  EXPECT_EQ(last_save_seconds(folder.path("")), 2.5);
}

// A log must never end or hang a run.
TEST(CutMetrics, WhatIsNoFileStaysAsItIs) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo(folder.path("metrics.jsonl").c_str(), 0600), 0);
  std::filesystem::create_directory(folder.path("metrics.csv"));
  EXPECT_EQ(cut_metrics(folder.path(""), 1, 1), 0);
  EXPECT_TRUE(std::filesystem::is_fifo(folder.path("metrics.jsonl")));
}

TEST(CutMetrics, ReplacesBothFiles) {
  const TempFolder folder;
  folder.write("metrics.jsonl",
               step(1) + save(1, 1) + step(2) + step(3) + "{\"type\":\"st");
  const std::string columns = "step,loss,eval_loss,eval_ppl\n";
  folder.write("metrics.csv", columns + "1\n2\n3\n");
  EXPECT_EQ(cut_metrics(folder.path(""), 1, 1), 2);
  EXPECT_EQ(folder.read("metrics.jsonl"), step(1) + save(1, 1));
  EXPECT_EQ(folder.read("metrics.csv"), columns + "1\n");
}

TEST(CutMetrics, OthersTablesAndRecordsStay) {
  const TempFolder folder;
  const std::string theirs = "{\"type\":\"step\",\"step\":7,\"reward\":1}\n";
  folder.write("metrics.jsonl", step(1) + save(1, 1) + theirs + step(2));
  folder.write("metrics.csv", "step,reward\n1,2\n7,3\n");
  EXPECT_EQ(cut_metrics(folder.path(""), 1, 1), 1);
  EXPECT_EQ(folder.read("metrics.jsonl"), step(1) + save(1, 1) + theirs);
  EXPECT_EQ(folder.read("metrics.csv"), "step,reward\n1,2\n7,3\n");
  for (const std::string theirs :
       {"time,eval_loss,eval_ppl\n1,2,3\n7,3,4\n",
        "step,eval_loss,eval_ppl\n1,2,3\nnotes, without an end"}) {
    folder.write("metrics.csv", theirs);
    cut_metrics(folder.path(""), 1, 1);
    EXPECT_EQ(folder.read("metrics.csv"), theirs);
  }
}

// nlohmann's values are destroyed by recursion.
TEST(CutMetrics, ADeepLineIsNoRecord) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']') + "\n";
  EXPECT_EQ(cut_jsonl(step(1) + save(1, 1) + deep + step(2), 1, 1),
            step(1) + save(1, 1) + deep);
}

TEST(SetMetricsAside, WhereARunHadSavedAndNotWhereItHadNot) {
  const TempFolder folder;
  folder.write("metrics.jsonl", step(1));
  EXPECT_THAT(set_metrics_aside(folder.path("")), ::testing::IsEmpty());
  folder.write("metrics.jsonl", step(1) + save(1, 1) + step(2));
  folder.write("metrics.jsonl.1", "mine");
  folder.write("metrics.csv", "step,reward\n1,2\n");
  EXPECT_THAT(set_metrics_aside(folder.path("")),
              ::testing::ElementsAre("metrics.jsonl.2"));
  EXPECT_EQ(folder.read("metrics.jsonl.2"), step(1) + save(1, 1) + step(2));
  EXPECT_EQ(folder.read("metrics.jsonl.1"), "mine");
  EXPECT_EQ(folder.read("metrics.csv"), "step,reward\n1,2\n");
}

TEST(SetMetricsAside, OfARunThatSavedOrEnded) {
  const TempFolder folder;
  folder.write("metrics.jsonl", "{\"type\":\"save\",\"step\":1}\n");
  EXPECT_THAT(set_metrics_aside(folder.path("")), ::testing::IsEmpty()) << "not ours";
  folder.write("metrics.jsonl", step(1));
  EXPECT_THAT(set_metrics_aside(folder.path("")), ::testing::IsEmpty());
  folder.write("metrics.jsonl", step(1) + R"({"type":"end","step":1)" + kWall);
  EXPECT_THAT(set_metrics_aside(folder.path("")),
              ::testing::ElementsAre("metrics.jsonl.1"));
}

bool has_end(const std::string& text) {
  const TempFolder folder;
  folder.write("metrics.jsonl", text);
  return has_end_record(folder.path(""), 2);
}

TEST(HasEndRecord, IsOfThisStepAndBehindAllSteps) {
  const std::string end = "{\"type\":\"end\",\"step\":2}\n";
  EXPECT_TRUE(has_end(step(1) + step(2) + end));
  EXPECT_TRUE(has_end(step(2) + end + kRun)) << "started again, with nothing to do";
  EXPECT_FALSE(has_end(step(1) + step(2) + eval(2)));
  EXPECT_FALSE(has_end(end + step(2))) << "an earlier life's";
  EXPECT_FALSE(has_end("{\"type\":\"end\",\"step\":1}\n"));
  EXPECT_FALSE(has_end(""));
}

TEST(CutMetrics, NoFileIsNoMetrics) {
  const TempFolder folder;
  EXPECT_EQ(cut_metrics(folder.path(""), 1, 1), 0);
}

}  // namespace
}  // namespace zero::launcher::metrics_history_test
