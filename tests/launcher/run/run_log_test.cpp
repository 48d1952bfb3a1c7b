// The log of a program of one's own is read as that of the launcher.
#include "launcher/run_log.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "launcher/report/history.h"
#include "tests/engine/training.h"
#include "tests/launcher/settings/configs.h"
#include "zero/engine.h"

namespace zero::launcher::run_log_test {
namespace {

struct SquareImpl : torch::nn::Module {
  SquareImpl() { w = register_parameter("w", torch::ones({3})); }
  at::Tensor forward(const at::Tensor& x) { return (x * w).square().sum(); }
  at::Tensor w;
};

class RunLogTest : public ::testing::Test {
 protected:
  // So many steps on ranks that are threads, behind `before` that a checkpoint had.
  // Returns their losses.
  std::vector<double> train(int ranks, int64_t steps, int64_t before = 0) {
    std::vector<double> losses;
    testing::on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      auto model = std::make_shared<SquareImpl>();
      Engine engine(model, {}, std::move(comm));
      engine.set_num_steps(before);
      RunLog log(run(), engine);
      for (int64_t i = 0; i < steps; ++i) {
        engine.backward(engine.forward(model, torch::ones({3})), 3);
        const StepReport report = engine.step();
        log.step(report);
        if (engine.rank() == 0) losses.push_back(report.loss);
      }
      log.eval(0.5, 7);
      if (ends_) log.end();
    });
    return losses;
  }

  std::string run() const { return folder_.path("runs/own"); }
  History history() const {
    std::ifstream file(run() + "/metrics.jsonl");
    return read_history(file);
  }
  int64_t num_lines(const std::string& type) const {
    std::istringstream text(folder_.read("runs/own/metrics.jsonl"));
    int64_t count = 0;
    for (std::string line; std::getline(text, line);)
      count += nlohmann::json::parse(line)["type"] == type;
    return count;
  }

  TempFolder folder_;
  bool ends_ = true;
};

TEST_F(RunLogTest, ARunIsReadAsThatOfTheProgram) {
  const std::vector<double> losses = train(2, 3);
  const History found = history();
  EXPECT_EQ(found.num_bad_lines, 0);
  ASSERT_EQ(found.steps.size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found.steps[i].step, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(found.steps[i].loss, losses[i]);
    EXPECT_EQ(found.steps[i].tokens, 6);
    EXPECT_GT(found.steps[i].seconds, 0);
  }
  ASSERT_EQ(found.evaluations.size(), 1);
  EXPECT_EQ(found.evaluations[0].loss, 0.5);
  EXPECT_TRUE(found.has_ended);
  ASSERT_EQ(found.starts.size(), 1);
  EXPECT_EQ(found.starts[0].record["world"]["size"], 2);
  EXPECT_EQ(found.starts[0].record["world"]["parameters"], 3);
  EXPECT_FALSE(found.starts[0].record["memory"].empty());
}

TEST_F(RunLogTest, StepsThatAreDoneAgainAreTakenBack) {
  ends_ = false;
  train(1, 3);
  EXPECT_FALSE(history().has_ended);
  train(1, 1, /*before=*/1);
  EXPECT_EQ(num_lines("step"), 2);
  EXPECT_EQ(num_lines("eval"), 1);
  EXPECT_EQ(history().starts.back().step, 1);
  train(1, 2);  // from the beginning
  EXPECT_EQ(num_lines("step"), 2);
  EXPECT_EQ(num_lines("run"), 3);
}

TEST_F(RunLogTest, AFolderThatCannotBeMadeStopsNothing) {
  folder_.write("runs", "a file");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(train(1, 2).size(), 2);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("cannot write " + run() + "/metrics.jsonl"));
}

}  // namespace
}  // namespace zero::launcher::run_log_test
