#include "launcher/run/metrics_history.h"

#include <gmock/gmock.h>

#include "tests/launcher/settings/configs.h"

namespace zero::launcher {
namespace {

std::string step(int64_t number, const std::string& more = "") {
  return R"({"type":"step","step":)" + std::to_string(number) + more + "}\n";
}

std::string save(int64_t number, int64_t batches) {
  return R"({"type":"save","step":)" + std::to_string(number) + R"(,"batches":)" +
         std::to_string(batches) + "}\n";
}

std::string eval(int64_t number) {
  return R"({"type":"eval","step":)" + std::to_string(number) + "}\n";
}

const std::string kRun = "{\"type\":\"run\"}\n";
const std::string kSkipped = ",\"skipped\":true";

TEST(CutJsonl, LaterStepsGoAndRunsStay) {
  const std::string before = kRun + step(1) + step(2) + eval(2) + save(2, 2);
  const std::string after = step(3) + eval(3) + kRun + step(4) + save(4, 4);
  EXPECT_EQ(cut_jsonl(before + after, 2, 2), before + kRun);
}

TEST(CutJsonl, NothingGoesWhereNothingIsLater) {
  const std::string text = kRun + step(1) + step(2) + save(2, 2) + eval(2);
  EXPECT_EQ(cut_jsonl(text, 2, 2), text);
}

TEST(CutJsonl, AStepSkippedAfterTheSaveGoes) {
  const std::string before = step(1) + step(1, kSkipped) + save(1, 2);
  EXPECT_EQ(cut_jsonl(before + step(1, kSkipped), 1, 2), before);
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

TEST(CutCsv, LaterRowsGo) {
  EXPECT_EQ(cut_csv("step,loss\n1,2\n2,2\n3,1\n", 2), "step,loss\n1,2\n2,2\n");
}

TEST(CutMetrics, ReplacesBothFiles) {
  const TempFolder folder;
  folder.write("metrics.jsonl", step(1) + save(1, 1) + step(2) + step(3));
  folder.write("metrics.csv", "step\n1\n2\n3\n");
  EXPECT_EQ(cut_metrics(folder.path(""), 1, 1), 2);
  EXPECT_EQ(folder.read("metrics.jsonl"), step(1) + save(1, 1));
  EXPECT_EQ(folder.read("metrics.csv"), "step\n1\n");
}

TEST(CutMetrics, NoFileIsNoMetrics) {
  const TempFolder folder;
  EXPECT_EQ(cut_metrics(folder.path(""), 1, 1), 0);
}

}  // namespace
}  // namespace zero::launcher
