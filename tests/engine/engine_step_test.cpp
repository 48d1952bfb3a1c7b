// The end of a step: norms, clipping, groups, schedules, and what happens to numbers that
// are not finite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/training.h"
#include "zero/errors.h"

namespace zero::testing::engine_step_test {
namespace {

struct LineImpl : torch::nn::Module {
  explicit LineImpl(int64_t numel = 130) {
    w = register_parameter("w", torch::arange(1, numel + 1).to(at::kFloat) / 100);
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
    options.optimizer.weight_decay = 0;
  }
  // One step on `ranks` with the given gradient of w (zero for b) on every rank.
  StepReport step(int ranks, const at::Tensor& gradient,
                  std::vector<float>* w = nullptr) {
    StepReport result;
    on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
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

// The last rank alone has the element with a gradient.
TEST_F(EngineStep, MovementsAreOfAnyRanksElements) {
  struct Case {
    double lr, last_gradient;
    bool had_gradient, moved;
  };
  for (const auto& [lr, last, had_gradient, moved] :
       {Case{0.1, 0, false, false}, Case{1e-12, 2, true, false}, Case{0.1, 2, true, true},
        Case{0.1, NAN, false, false}}) {
    options.schedule.lr = lr;
    at::Tensor gradient = torch::zeros({130});
    gradient[129] = last;
    for (const int ranks : {1, 2, 3}) {
      on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
        auto model = std::make_shared<LineImpl>();
        Engine engine(model, options, std::move(comm));
        engine.backward(engine.forward(model, gradient, torch::zeros({3, 1})), 1);
        engine.step();
        const std::vector<ParamMovement> found = engine.movements();
        ASSERT_EQ(found.size(), 2u);
        EXPECT_EQ(found[0].fqn, "w");
        EXPECT_EQ(found[0].had_gradient, had_gradient) << lr << " " << last;
        EXPECT_EQ(found[0].moved, moved) << lr << " " << last;
        EXPECT_FALSE(found[1].had_gradient || found[1].moved);
        engine.set_frozen("w", true);
        EXPECT_EQ(engine.movements().size(), 1u);
      });
    }
  }
}

// Its gradient is what one likes, its loss finite.
struct HookedImpl : torch::nn::Module {
  HookedImpl() { w = register_parameter("w", torch::ones({130})); }
  at::Tensor forward(const at::Tensor& gradient) {
    const at::Tensor h = w * 1;
    h.register_hook([gradient](const at::Tensor&) { return gradient; });
    return h.sum();
  }
  at::Tensor w;
};

TEST_F(EngineStep, NoNormLosesWhatIsNotFinite) {
  for (const NormType norm : {NormType::kL2, NormType::kL1, NormType::kInf}) {
    options.norm = norm;
    on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
      auto model = std::make_shared<HookedImpl>();
      Engine engine(model, options, std::move(comm));
      for (const double bad : {NAN, INFINITY, -INFINITY}) {
        for (const int place : {0, 129}) {  // of the first rank, and of the second
          at::Tensor gradient = torch::ones({130});
          gradient[place] = bad;
          engine.backward(engine.forward(model, gradient), 1);
          const StepReport report = engine.step();
          EXPECT_TRUE(report.skipped) << bad << " " << place;
          EXPECT_EQ(report.first_bad, "w");
          EXPECT_TRUE(std::isfinite(report.loss));
        }
      }
    });
  }
}

TEST_F(EngineStep, TheFirstBadParameterOfAnyRankIsNamed) {
  const at::Tensor good = torch::ones({130}), good_b = torch::ones({3, 1});
  at::Tensor first = good.clone(), last = good.clone();
  first[0] = INFINITY;
  last[129] = INFINITY;
  for (const int ranks : {1, 2}) {
    on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      auto model = std::make_shared<LineImpl>();
      Engine engine(model, options, std::move(comm));
      const auto first_bad = [&](const at::Tensor& gradient, const at::Tensor& of_b) {
        engine.backward(engine.forward(model, gradient, of_b), 1);
        return engine.step().first_bad;
      };
      EXPECT_EQ(first_bad(first, good_b * NAN), "w");
      EXPECT_EQ(first_bad(last, good_b * NAN), "w");
      EXPECT_EQ(first_bad(good, good_b * NAN), "b");
      EXPECT_EQ(first_bad(good, good_b), "");
    });
  }
}

// Gradients are looked at 65536 at a time, of each rank's half from its begin on.
TEST_F(EngineStep, ABadGradientFarBehindIsFound) {
  constexpr int64_t kPiece = 65536, kNumel = 4 * kPiece - 64;  // b fills the rest
  const at::Tensor good = torch::ones({kNumel}), good_b = torch::ones({3, 1});
  for (const auto& [ranks, threads] : {std::pair(1, 1), {1, 3}, {2, 1}, {2, 2}}) {
    options.adam_threads = threads;
    on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      auto model = std::make_shared<LineImpl>(kNumel);
      Engine engine(model, options, std::move(comm));
      const auto first_bad = [&](const at::Tensor& gradient, const at::Tensor& of_b) {
        engine.backward(engine.forward(model, gradient, of_b), 1);
        return engine.step().first_bad;
      };
      for (const int64_t place : {kPiece - 1, kPiece, 2 * kPiece - 1, 2 * kPiece,
                                  3 * kPiece - 1, 3 * kPiece, kNumel - 1}) {
        at::Tensor gradient = good.clone();
        gradient[place] = place % 2 == 0 ? NAN : INFINITY;
        EXPECT_EQ(first_bad(gradient, good_b * NAN), "w") << place << ", ranks " << ranks;
      }
      EXPECT_EQ(first_bad(good, good_b * NAN), "b") << ranks;
      EXPECT_EQ(first_bad(good, good_b), "");
    });
  }
}

TEST_F(EngineStep, ALossThatIsNotFiniteSkipsTheStepByItself) {
  options.schedule.warmup_steps = 4;
  for (const int ranks : {1, 2}) {
    on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      const bool is_last = comm->rank() == comm->size() - 1;
      auto model = std::make_shared<LineImpl>();
      Engine engine(model, options, std::move(comm));
      const at::Tensor loss = engine.forward(model, gradient, torch::zeros({3, 1}));
      engine.backward(is_last ? loss + INFINITY : loss, 1);
      const StepReport report = engine.step();
      EXPECT_TRUE(report.skipped);
      EXPECT_EQ(report.first_bad, "loss");
      EXPECT_EQ(report.clip_coef, 0);
      EXPECT_EQ(report.step, 0);
      EXPECT_EQ(engine.num_steps(), 0);
      for (const ShardView& view : engine.shards()) {
        for (const StateView& state : view.state)
          EXPECT_THAT(state.values.span(), ::testing::Each(0));
      }
      engine.backward(engine.forward(model, gradient, torch::zeros({3, 1})), 1);
      const StepReport next = engine.step();
      EXPECT_EQ(next.step, 1);
      EXPECT_EQ(next.lr, options.schedule.lr / 4) << "the schedule waited";
    });
  }
}

// Its sum is a float yet; in the mean over few targets it is none.
TEST_F(EngineStep, AGradientThatNoFloatHoldsSkipsTheStep) {
  options.nominal_targets = 4096;
  options.micro_batches_per_rank = 4;
  auto model = std::make_shared<LineImpl>();
  Engine engine(model, options);
  at::Tensor large = torch::zeros({130});
  large[0] = 3e38;
  for (const int num_targets : {1, 0, 0, 0})
    engine.backward(engine.forward(model, large, torch::zeros({3, 1})), num_targets);
  const StepReport report = engine.step();
  EXPECT_TRUE(report.skipped);
  EXPECT_EQ(report.first_bad, "w");
}

TEST_F(EngineStep, OneBadRankStopsAll) {
  on_ranks(3, [&](std::unique_ptr<Ranks> comm) {
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
  options.optimizer.eps = 0;
  step(2, gradient, &w);
  const at::Tensor expected = LineImpl().w.detach() - 0.1 * gradient.sign();
  for (size_t i = 0; i < w.size(); ++i)
    EXPECT_NEAR(w[i], expected[i].item<float>(), 1e-6) << i;
}

// So large an eps that the update is proportional to the gradient.
TEST_F(EngineStep, TheUpdateIsOfTheClippedGradient) {
  options.optimizer.eps = 1e6;
  options.schedule.lr = 1e6;
  std::vector<float> w, whole;
  options.clip = gradient.norm().item<double>() / 4;
  step(2, gradient, &w);
  options.clip = 0;
  step(2, gradient, &whole);
  const at::Tensor start = LineImpl().w.detach();
  for (size_t i = 0; i < w.size(); ++i) {
    const float from = start[i].item<float>();
    EXPECT_NEAR(w[i] - from, (whole[i] - from) / 4, 1e-5) << i;
    EXPECT_NEAR(whole[i] - from, -gradient[i].item<float>(), 1e-5) << i;
  }
}

// m = (1 - beta1) g and v = (1 - beta2) g^2 after the first step, element by element.
TEST_F(EngineStep, MomentsAreThoseOfTheirElements) {
  for (const int ranks : {1, 2, 3}) {
    on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      auto model = std::make_shared<LineImpl>();
      Engine engine(model, options, std::move(comm));
      engine.backward(engine.forward(model, gradient, torch::ones({3, 1})), 1);
      engine.step();
      const ShardView view = engine.local_shard("w");
      for (size_t i = 0; i < view.master.size(); ++i) {
        const auto g = gradient[view.begin + static_cast<int64_t>(i)].item<double>();
        EXPECT_NEAR(view.state[0].values[i], 0.1 * g, 1e-6);
        EXPECT_NEAR(view.state[1].values[i], 0.05 * g * g, 1e-6);
      }
    });
  }
}

TEST_F(EngineStep, OnlyMatricesDecayUnlessAllShall) {
  options.optimizer.weight_decay = 0.5;
  for (const WeightDecayOn on : {WeightDecayOn::kMatrices, WeightDecayOn::kAll}) {
    options.weight_decay_on = on;
    on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
      auto model = std::make_shared<LineImpl>();
      Engine engine(model, options, std::move(comm));
      engine.set_full_parameter("b", torch::full({3, 1}, 2));
      engine.backward(engine.forward(model, gradient * 0, torch::zeros({3, 1})), 1);
      engine.step();
      const double factor = 1 - 0.1 * 0.5;
      const at::Tensor w =
          LineImpl().w.detach() * (on == WeightDecayOn::kAll ? factor : 1);
      EXPECT_TRUE(torch::allclose(engine.full_parameter("w"), w));
      EXPECT_TRUE(
          torch::allclose(engine.full_parameter("b"), torch::full({3, 1}, 2 * factor)));
    });
  }
}

// ---- what a step is the gradient of

// Of fewer and of more backwards than planned, the norm is that of all.
TEST_F(EngineStep, TheNormIsOfAllPassesHoweverManyWerePlanned) {
  std::vector<double> norms;
  for (const int64_t num_planned : {1, 3, 5}) {
    options.micro_batches_per_rank = num_planned;
    auto model = std::make_shared<LineImpl>();
    Engine engine(model, options, make_one_rank());
    for (int pass = 0; pass < 3; ++pass) {
      engine.backward(engine.forward(model, gradient * (1 << pass), torch::ones({3, 1})),
                      3);
    }
    norms.push_back(engine.step().grad_norm);
  }
  EXPECT_THAT(norms, ::testing::Each(norms[1]));
}

TEST_F(EngineStep, MicroBatchesAddUpToTheMeanOverTargets) {
  for (const int ranks : {1, 2}) {
    for (const bool deterministic : {false, true}) {
      for (const double nominal : {1.0, 8.0}) {
        options.deterministic = deterministic;
        options.nominal_targets = nominal;
        options.micro_batches_per_rank = 5;
        on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
          const int rank = comm->rank();
          auto model = std::make_shared<LineImpl>();
          Engine engine(model, options, std::move(comm));
          for (int round = 0; round < 2; ++round) {
            for (int pass = 0; pass < 5; ++pass) {
              const double weight = 1 << (5 * rank + pass);
              engine.backward(
                  engine.forward(model, gradient * weight, torch::ones({3, 1})), pass);
            }
            const double weights = (1 << (5 * ranks)) - 1, targets = 10 * ranks;
            EXPECT_TRUE(torch::allclose(engine.full_gradient("w"),
                                        gradient * (weights / targets), 1e-5));
            EXPECT_TRUE(torch::allclose(engine.full_gradient("b"),
                                        torch::full({3, 1}, 5 * ranks / targets), 1e-5));
            engine.discard_gradients();
          }
        });
      }
    }
  }
}

TEST_F(EngineStep, TheLossIsTheMeanOverTheTargetsOfAllRanks) {
  options.nominal_targets = 8;
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    const int rank = comm->rank();
    auto model = std::make_shared<LineImpl>();
    Engine engine(model, options, std::move(comm));
    double sum = 0;
    for (int pass = 0; pass < 3; ++pass) {
      const double weight = 1 + 3 * rank + pass;
      engine.backward(engine.forward(model, gradient * weight, torch::ones({3, 1})),
                      2 + rank);
    }
    for (int weight = 1; weight <= 6; ++weight)
      sum += (LineImpl().w * gradient).sum().item<double>() * weight;
    const StepReport report = engine.step();
    EXPECT_EQ(report.num_targets, 15);
    EXPECT_NEAR(report.loss, sum / 15, 1e-4 * std::abs(sum));
  });
}

// x.grad is the gradient of the loss_sum, whatever the scale that backward runs in, and
// adds up as torch's does.
TEST_F(EngineStep, InputsGetTheGradientOfTheLossSum) {
  for (const double nominal : {1.0, 8.0, 3.0}) {
    options.nominal_targets = nominal;
    on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
      auto model = std::make_shared<LineImpl>();
      Engine engine(model, options, std::move(comm));
      const at::Tensor x = torch::ones({130}).requires_grad_();
      const at::Tensor w = LineImpl().w.detach();
      for (const double sum : {2.0, 5.0}) {
        engine.backward(
            engine.forward(model, x, torch::ones({3, 1})) * (sum == 2 ? 2 : 3), 7);
        EXPECT_TRUE(torch::allclose(x.grad(), w * sum)) << nominal;
      }
      EXPECT_FALSE(model->w.grad().defined()) << "the engine's own";
    });
  }
}

TEST_F(EngineStep, GradientsTravelInTheirWireType) {
  // 1 + 2^-10 is no number of bf16.
  for (const DType wire : {DType::kFp32, DType::kBf16}) {
    options.reduce_dtype = wire;
    const double travelled = wire == DType::kFp32 ? 1 + 1.0 / 1024 : 1;
    for (const int ranks : {1, 2}) {
      on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
        auto model = std::make_shared<LineImpl>();
        Engine engine(model, options, std::move(comm));
        engine.backward(engine.forward(model, torch::full({130}, 1 + 1.0 / 1024),
                                       torch::zeros({3, 1})),
                        1);
        EXPECT_TRUE(engine.full_gradient("w").eq(travelled).all().item<bool>());
      });
    }
  }
}

TEST_F(EngineStep, DeterministicModeTakesAsManyBackwardsAsPlanned) {
  options.deterministic = true;
  options.micro_batches_per_rank = 2;
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    const auto has = [](const std::string& text) { return ::testing::HasSubstr(text); };
    auto model = std::make_shared<LineImpl>();
    Engine engine(model, options, std::move(comm));
    const auto backward = [&] {
      engine.backward(engine.forward(model, gradient, torch::zeros({3, 1})), 1);
    };
    const auto error_of = [](auto call) -> std::string {
      try {
        call();
      } catch (const Error& error) {
        return error.what();
      }
      return "no error";
    };
    backward();
    EXPECT_THAT(error_of([&] { engine.step(); }),
                AllOf(has("step() after 1 backward() calls"), has("planned for 2")));
    backward();
    EXPECT_THAT(error_of(backward),
                AllOf(has("number 3 of a step"), has("planned for 2")));
    EXPECT_FALSE(engine.step().skipped);
    EXPECT_EQ(engine.num_steps(), 1);
  });
}

TEST_F(EngineStep, DiscardedGradientsLeaveNothing) {
  for (const int ranks : {1, 2}) {
    for (const bool finished : {false, true}) {
      on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
        auto model = std::make_shared<LineImpl>();
        Engine engine(model, options, std::move(comm));
        engine.backward(engine.forward(model, gradient, torch::ones({3, 1})), 1);
        if (finished) engine.full_gradient("w");
        model->w.mutable_grad() = torch::ones({130});  // somebody else's
        engine.discard_gradients();
        EXPECT_FALSE(model->w.grad().defined());
        EXPECT_THROW(engine.step(), Error) << "there was no backward";
        engine.backward(engine.forward(model, gradient * 3, torch::ones({3, 1})), 2);
        EXPECT_TRUE(torch::allclose(engine.full_gradient("w"), gradient * 1.5));
        EXPECT_EQ(engine.step().num_targets, 2 * ranks);
      });
    }
  }
}

TEST_F(EngineStep, GroupsSetLearningRateAndDecay) {
  options.groups = {{"w", 0.5, 0.25, false}};
  options.optimizer.eps = 0;
  std::vector<float> w;
  step(3, gradient, &w);
  const at::Tensor expected =
      LineImpl().w.detach() * (1 - 0.05 * 0.25) - 0.05 * gradient.sign();
  for (size_t i = 0; i < w.size(); ++i)
    EXPECT_NEAR(w[i], expected[i].item<float>(), 1e-6) << i;
}

TEST_F(EngineStep, NoTargetsOnAnyRankAreNoStep) {
  options.optimizer.weight_decay = 0.1;
  options.weight_decay_on = WeightDecayOn::kAll;
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<LineImpl>();
    const int is_first = comm->rank() == 0;
    Engine engine(model, options, std::move(comm));
    engine.backward(engine.forward(model, gradient, torch::zeros({3, 1})), 0);
    EXPECT_THROW(engine.step(), Error);
    EXPECT_TRUE(engine.full_parameter("w").equal(LineImpl().w.detach()));
    engine.discard_gradients();
    engine.backward(engine.forward(model, gradient, torch::zeros({3, 1})), is_first);
    EXPECT_EQ(engine.step().num_targets, 1);
  });
}

TEST_F(EngineStep, TheCallersRateCountsInsteadOfTheSchedules) {
  auto model = std::make_shared<LineImpl>();
  Engine engine(model, options, nullptr);
  EXPECT_THROW(engine.set_learning_rate(-1), Error);
  EXPECT_THROW(engine.set_learning_rate(NAN), Error);
  EXPECT_THROW(engine.set_learning_rate(1e39), Error);  // no float
  for (const double lr : {0.0, 0.25}) {
    engine.set_learning_rate(lr);
    engine.backward(engine.forward(model, gradient, torch::zeros({3, 1})), 1);
    EXPECT_EQ(engine.step().lr, lr);
    EXPECT_EQ(engine.full_parameter("w").equal(LineImpl().w.detach()), lr == 0);
  }
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
  refuse([](Options& o) { o.optimizer.beta1 = 1; });
  refuse([](Options& o) { o.optimizer.eps = -1; });
  refuse([](Options& o) { o.optimizer.weight_decay = -0.1; });
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
}  // namespace zero::testing::engine_step_test
