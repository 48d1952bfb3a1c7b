#include "launcher/run/metrics.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/launcher/settings/configs.h"

namespace zero::launcher::metrics_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

StepRecord some_step(int64_t step) {
  StepRecord record;
  record.step = step;
  record.loss = 0.1 + 0.2;
  record.num_targets = 1024;
  record.seconds = 0.5;
  return record;
}

class MetricsTest : public ::testing::Test {
 protected:
  Settings settings(const std::vector<std::string>& metrics = {},
                    const std::string& dtype = "fp32") const {
    Settings settings;
    settings.out = folder.path("");
    settings.metrics = metrics;
    settings.dtype = dtype;
    return settings;
  }

  std::vector<json> lines() const {
    std::vector<json> all;
    std::istringstream text(folder.read("metrics.jsonl"));
    for (std::string line; std::getline(text, line);) all.push_back(json::parse(line));
    return all;
  }

  // Of the one file in tensorboard/.
  std::string read_events() const {
    const std::filesystem::directory_iterator entries(folder.path("tensorboard"));
    return folder.read("tensorboard/" + entries->path().filename().string());
  }

  TempFolder folder;
};

TEST_F(MetricsTest, AStepHasAllItsDigits) {
  Metrics(settings(), 0).step(some_step(12));
  const json step = lines().at(0);
  EXPECT_EQ(step["type"], "step");
  EXPECT_EQ(step["step"], 12);
  EXPECT_EQ(step["loss"].get<double>(), 0.1 + 0.2);
  EXPECT_EQ(step["ppl"].get<double>(), std::exp(0.1 + 0.2));
  EXPECT_EQ(step["tokens_per_second"], 2048);
  EXPECT_EQ(step["updates_per_second"], 2);
  for (const char* key :
       {"grad_norm", "clip_coef", "lr", "seconds", "host_bytes_free", "wall"}) {
    EXPECT_TRUE(step.contains(key)) << key;
  }
  EXPECT_FALSE(step.contains("loss_scale"));
}

TEST_F(MetricsTest, AStepTellsWhatMovedAndWhatTookItsTime) {
  StepRecord record = some_step(12);
  record.traffic = {1, 2, 3, 4};
  record.shares = {0.5, 0.25, 0.125, 0.0625, 0.75, 0.875};
  Metrics(settings(), 0).step(record);
  const json step = lines().at(0);
  EXPECT_EQ(step["bytes_h2d"], 1);
  EXPECT_EQ(step["bytes_d2h"], 2);
  EXPECT_EQ(step["bytes_gathered"], 3);
  EXPECT_EQ(step["bytes_reduced"], 4);
  EXPECT_EQ(step["share_compute"], 0.5);
  EXPECT_EQ(step["share_waiting"], 0.25);
  EXPECT_EQ(step["share_weights"], 0.125);
  EXPECT_EQ(step["share_gradients"], 0.0625);
  EXPECT_EQ(step["share_optimizer"], 0.75);
  EXPECT_EQ(step["share_saves"], 0.875);
}

TEST(StepRecords, BehindAWaitForASaveTellItAsTheirs) {
  StepRecord step;
  step.seconds = 1;
  step.shares.compute = 0.5;
  EXPECT_EQ(behind_wait(step, 0).seconds, 1);
  const StepRecord behind = behind_wait(step, 3);
  EXPECT_EQ(behind.seconds, 4);
  EXPECT_EQ(behind.shares.compute, 0.125);
  EXPECT_EQ(behind.shares.saves, 0.75);
}

TEST_F(MetricsTest, OnlyFp16HasALossScale) {
  StepRecord record = some_step(12);
  record.loss_scale = 512;
  Metrics(settings({"csv"}, "fp16"), 0).step(record);
  EXPECT_EQ(lines().at(0)["loss_scale"], 512);
  EXPECT_THAT(folder.read("metrics.csv"),
              HasSubstr(",loss_scale,eval_loss,eval_ppl\n12,"));
  EXPECT_THAT(folder.read("metrics.csv"), ::testing::EndsWith(",512,,\n"));
}

TEST_F(MetricsTest, RecordsAreAppendedAcrossRuns) {
  for (int run = 0; run < 2; ++run) {
    Metrics metrics(settings(), 0);
    metrics.note("run", {{"world", {{"size", 4}}}, {"config", {{"lr", 1}}}});
    metrics.step(some_step(run));
    metrics.eval({run, 2.5, 10, 1});
  }
  ASSERT_EQ(lines().size(), 6u);
  EXPECT_EQ(lines()[3]["config"]["lr"], 1);
  EXPECT_EQ(lines()[3]["world"]["size"], 4);
  EXPECT_EQ(lines()[5]["type"], "eval");
}

TEST_F(MetricsTest, WhatIsNotFiniteIsNull) {
  StepRecord record = some_step(1);
  record.loss = std::numeric_limits<double>::quiet_NaN();
  record.skipped = true;
  record.first_bad = "loss";
  Metrics(settings({"csv"}), 0).step(record);
  EXPECT_TRUE(lines().at(0)["loss"].is_null());
  EXPECT_EQ(lines().at(0)["first_bad"], "loss");
  EXPECT_EQ(lines().at(0)["updates_per_second"], 0);
  EXPECT_THAT(folder.read("metrics.csv"), HasSubstr("\n1,nan,nan,"));
}

TEST_F(MetricsTest, CsvHasOneHeader) {
  for (int run = 0; run < 2; ++run) Metrics(settings({"csv"}), 0).step(some_step(run));
  const std::string csv = folder.read("metrics.csv");
  EXPECT_THAT(csv, StartsWith("step,loss,ppl,grad_norm,"));
  EXPECT_EQ(std::ranges::count(csv, '\n'), 3);
}

// As it may be when a run goes on.
TEST_F(MetricsTest, CsvHasEvaluationsInRowsOfTheirOwn) {
  Metrics metrics(settings({"csv"}), 0);
  metrics.eval({4, 0, 10, 1});
  metrics.step(some_step(5));
  std::istringstream csv(folder.read("metrics.csv"));
  std::string columns, eval, step;
  std::getline(std::getline(std::getline(csv, columns), eval), step);
  EXPECT_THAT(columns, StartsWith("step,loss,ppl,grad_norm,"));
  EXPECT_THAT(columns, ::testing::EndsWith(",share_saves,eval_loss,eval_ppl"));
  EXPECT_THAT(eval, ::testing::MatchesRegex("4,,+0.0,1.0"));
  EXPECT_THAT(step, StartsWith("5,0.30000000000000004,"));
  EXPECT_THAT(step, ::testing::EndsWith(",0.0,,"));
  EXPECT_EQ(std::ranges::count(eval, ','), std::ranges::count(columns, ','));
  EXPECT_EQ(std::ranges::count(step, ','), std::ranges::count(columns, ','));
}

TEST_F(MetricsTest, TensorboardHasStepsAndEvaluations) {
  StepRecord skipped = some_step(8);
  skipped.skipped = true;
  StepRecord scaled = some_step(8);
  scaled.loss_scale = 512;
  {
    Metrics metrics(settings({"tensorboard"}), 6);
    metrics.step(some_step(7));
    metrics.eval({7, 2.5, 10, 1});
    metrics.step(skipped);
    metrics.step(scaled);
  }
  const std::string bytes = read_events();
  EXPECT_THAT(bytes, HasSubstr("\x10\x07\x3a\x02\x08\x01")) << "begins with step 7";
  const auto count = [&](const std::string& tag) {
    size_t number = 0;
    for (size_t at = 0; (at = bytes.find(tag, at)) != bytes.npos; ++at) ++number;
    return number;
  };
  for (const char* tag : {"train/loss\x15", "train/grad_norm\x15", "train/lr\x15",
                          "train/tokens_per_second\x15", "train/step_seconds\x15"}) {
    EXPECT_EQ(count(tag), 2u) << tag;
  }
  EXPECT_EQ(count("train/loss_scale\x15"), 1u);
  EXPECT_EQ(count("eval/loss\x15"), 1u);
  EXPECT_EQ(lines().size(), 4u);
}

TEST_F(MetricsTest, AFullDiskLosesLinesAndIsCounted) {
  std::signal(SIGXFSZ, SIG_IGN);
  Metrics metrics(settings(), 0);
  metrics.step(some_step(1));
  const auto size = std::filesystem::file_size(folder.path("metrics.jsonl"));
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{size + 10, before.rlim_max};  // room for half a line
  setrlimit(RLIMIT_FSIZE, &full);
  ::testing::internal::CaptureStderr();
  metrics.step(some_step(2));
  metrics.step(some_step(3));
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(std::filesystem::file_size(folder.path("metrics.jsonl")), size);
  EXPECT_THAT(warnings, HasSubstr("cannot write"));
  EXPECT_EQ(std::ranges::count(warnings, '\n'), 1);

  metrics.step(some_step(4));
  ASSERT_EQ(lines().size(), 3u);
  EXPECT_EQ(lines()[1]["type"], "gap");
  EXPECT_EQ(lines()[1]["lost"], 2);
  EXPECT_EQ(lines()[2]["step"], 4);
  metrics.step(some_step(5));
  EXPECT_EQ(lines().size(), 4u) << "nothing more was lost";
}

TEST_F(MetricsTest, RecordsGoOnAtThePathOfAFileThatIsMoved) {
  Metrics metrics(settings(), 0);
  metrics.step(some_step(1));
  std::filesystem::rename(folder.path("metrics.jsonl"), folder.path("old.jsonl"));
  metrics.step(some_step(2));
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_EQ(lines()[0]["step"], 2);
  EXPECT_EQ(json::parse(folder.read("old.jsonl"))["step"], 1);
}

TEST_F(MetricsTest, AnUnwritableFolderDoesNotStopTheRun) {
  ::testing::internal::CaptureStderr();
  Settings nowhere = settings({"csv", "tensorboard"});
  nowhere.out = "/proc/nowhere";
  Metrics metrics(nowhere, 0);
  metrics.step(some_step(1));
  metrics.step(some_step(2));
  EXPECT_EQ(std::ranges::count(::testing::internal::GetCapturedStderr(), '\n'),
            3);  // one for each file
}

}  // namespace
}  // namespace zero::launcher::metrics_test
