// The end of a step: norms, clipping, groups, schedules, and what happens to numbers that
// are not finite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/errors.h"
#include "tests/engine/training.h"

namespace zero::testing {
namespace {

struct LineImpl : torch::nn::Module {
  LineImpl() {
    w = register_parameter("w", torch::arange(1, 131).to(at::kFloat) / 100);
    b = register_parameter("b", torch::zeros({3, 1}));
  }
  at::Tensor forward(const at::Tensor& gradient, const at::Tensor& gradient_b) {
    return (w * gradient).sum() + (b * gradient_b).sum();
  }
  at::Tensor w, b;
};

class EngineStep : public ::testing::Test {
 protected:
  EngineStep() {
    options.adam_threads = 1;
    options.device = DeviceChoice::kCpu;
    options.schedule.lr = 0.1;
    options.adam.weight_decay = 0;
  }
  // One step on `ranks` with the given gradient of w (zero for b) on every rank.
  StepReport step(int ranks, const at::Tensor& gradient,
                  std::vector<float>* w = nullptr) {
    StepReport result;
    on_ranks(ranks, [&](std::unique_ptr<Communicator> comm) {
      const int rank = comm->rank();
      auto model = std::make_shared<LineImpl>();
      Engine engine(model, options, std::move(comm));
      engine.backward(engine.forward(model, gradient, torch::zeros({3, 1})), 1);
      const StepReport report = engine.step();
      const at::Tensor full = engine.full_parameter("w");
      if (rank != 0) return;
      result = report;
      if (w) w->assign(full.data_ptr<float>(), full.data_ptr<float>() + full.numel());
    });
    return result;
  }
  const at::Tensor gradient = torch::linspace(-2, 3, 130);
  Options options;
};

TEST_F(EngineStep, NormsEqualTorchsOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 4}) {
    options.norm = NormType::kL2;
    EXPECT_NEAR(step(ranks, gradient).grad_norm, gradient.norm().item<double>(), 1e-5);
    options.norm = NormType::kL1;
    EXPECT_NEAR(step(ranks, gradient).grad_norm, gradient.abs().sum().item<double>(),
                1e-3);
    options.norm = NormType::kInf;
    EXPECT_NEAR(step(ranks, gradient).grad_norm, 3, 1e-6);
  }
  options.norm = NormType::kL2;
  EXPECT_EQ(step(1, gradient).grad_norm, step(2, gradient).grad_norm);
  EXPECT_EQ(step(1, gradient).grad_norm, step(4, gradient).grad_norm);
}

TEST_F(EngineStep, ClipsToTheLimit) {
  options.clip = 1;
  const StepReport clipped = step(2, gradient);
  EXPECT_NEAR(clipped.clip_coef * clipped.grad_norm, 1, 1e-5);
  options.clip = 1e6;
  EXPECT_EQ(step(2, gradient).clip_coef, 1);
  options.clip = 0;
  EXPECT_EQ(step(2, gradient).clip_coef, 1);
}

TEST_F(EngineStep, NonFiniteGradientsChangeNothingAndAreNamed) {
  const at::Tensor start = LineImpl().w;
  for (const double bad : {NAN, INFINITY, -INFINITY}) {
    for (const int ranks : {1, 2, 3}) {
      at::Tensor gradient = torch::ones({130});
      gradient[129] = bad;
      std::vector<float> w;
      const StepReport report = step(ranks, gradient, &w);
      EXPECT_TRUE(report.skipped);
      EXPECT_EQ(report.step, 0);
      EXPECT_EQ(report.first_bad, "w");
      EXPECT_FALSE(std::isfinite(report.grad_norm));
      EXPECT_EQ(std::memcmp(w.data(), start.data_ptr<float>(), w.size() * 4), 0);
    }
  }
}

TEST_F(EngineStep, OneBadRankStopsAll) {
  on_ranks(3, [&](std::unique_ptr<Communicator> comm) {
    const bool is_bad = comm->rank() == 1;
    auto model = std::make_shared<LineImpl>();
    Engine engine(model, options, std::move(comm));
    engine.backward(engine.forward(model, is_bad ? gradient * INFINITY : gradient,
                                   torch::zeros({3, 1})),
                    1);
    EXPECT_TRUE(engine.step().skipped);
    engine.backward(engine.forward(model, gradient, torch::zeros({3, 1})), 1);
    const StepReport next = engine.step();
    EXPECT_FALSE(next.skipped);
    EXPECT_EQ(next.step, 1);
    EXPECT_NEAR(next.grad_norm, gradient.norm().item<double>(), 1e-5);
  });
}

TEST_F(EngineStep, FirstAdamStepIsTheClosedForm) {
  // m / sqrt(v) is the sign of the gradient at the first step.
  std::vector<float> w;
  options.adam.eps = 0;
  step(2, gradient, &w);
  const at::Tensor expected = LineImpl().w.detach() - 0.1 * gradient.sign();
  for (size_t i = 0; i < w.size(); ++i)
    EXPECT_NEAR(w[i], expected[i].item<float>(), 1e-6) << i;
}

TEST_F(EngineStep, GroupsSetLearningRateAndDecay) {
  options.groups = {{"w", 0.5, 0.25, false}};
  options.adam.eps = 0;
  std::vector<float> w;
  step(3, gradient, &w);
  const at::Tensor expected =
      LineImpl().w.detach() * (1 - 0.05 * 0.25) - 0.05 * gradient.sign();
  for (size_t i = 0; i < w.size(); ++i)
    EXPECT_NEAR(w[i], expected[i].item<float>(), 1e-6) << i;
}

TEST_F(EngineStep, NoTargetsMeanNoGradient) {
  on_ranks(2, [&](std::unique_ptr<Communicator> comm) {
    auto model = std::make_shared<LineImpl>();
    Engine engine(model, options, std::move(comm));
    engine.backward(engine.forward(model, gradient * 0, torch::zeros({3, 1})), 0);
    const StepReport report = engine.step();
    EXPECT_EQ(report.num_targets, 0);
    EXPECT_EQ(report.grad_norm, 0);
    EXPECT_FALSE(report.skipped);
  });
}

TEST_F(EngineStep, MisuseIsNamed) {
  auto model = std::make_shared<LineImpl>();
  Engine engine(model, options, nullptr);
  EXPECT_THROW(engine.step(), Error);
  EXPECT_THROW(engine.backward(torch::ones({2}), 1), Error);
  EXPECT_THROW(engine.backward(torch::ones({}), 1), Error);
  const at::Tensor loss = engine.forward(model, gradient, torch::zeros({3, 1}));
  EXPECT_THROW(engine.backward(loss, -1), Error);
}

TEST_F(EngineStep, BadOptionsAreRefused) {
  const auto refuse = [&](auto change) {
    Options bad = options;
    change(bad);
    EXPECT_THROW(Engine(std::make_shared<LineImpl>(), bad, nullptr), Error);
  };
  refuse([](Options& o) { o.schedule.lr = -1; });
  refuse([](Options& o) { o.schedule.lr = NAN; });
  refuse([](Options& o) { o.adam.beta1 = 1; });
  refuse([](Options& o) { o.adam.eps = -1; });
  refuse([](Options& o) { o.adam.weight_decay = -0.1; });
  refuse([](Options& o) { o.clip = -1; });
  refuse([](Options& o) { o.clip = NAN; });
  refuse([](Options& o) { o.prefetch = -1; });
  refuse([](Options& o) { o.nominal_targets = 0; });
  refuse([](Options& o) { o.groups = {{"nobody", 1, {}, false}}; });
}

TEST_F(EngineStep, InferenceKeepsNoStateAndCannotTrain) {
  options.inference = true;
  auto model = std::make_shared<LineImpl>();
  Engine engine(model, options, nullptr);
  const at::Tensor loss = engine.forward(model, gradient, torch::zeros({3, 1}));
  EXPECT_NEAR(loss.item<float>(), (LineImpl().w * gradient).sum().item<float>(), 1e-4);
  EXPECT_THROW(engine.backward(loss, 1), Error);
  for (const MemoryEntry& entry : engine.memory()) EXPECT_EQ(entry.owner, "masters");
}

}  // namespace
}  // namespace zero::testing
