// Random numbers inside forward: every call draws its own, and draws them again when it
// is recomputed. The caller's generator stays out of it.
#include "engine/unit/call_seed.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

#include "tests/engine/unit_contract.h"

namespace zero::testing::call_seed_test {
namespace {

using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
namespace nn = torch::nn;

at::Tensor drop(const at::Tensor& x) { return torch::dropout(x, 0.5, /*train=*/true); }

// No parameters: nothing is gathered, so that ranks that are threads can take turns at
// torch's one generator.
struct DropsImpl : nn::Module {
  at::Tensor forward(const at::Tensor& x) { return drop(x); }
};
struct WeightImpl : nn::Module {
  WeightImpl() { w = register_parameter("w", torch::ones({3})); }
  at::Tensor forward(const at::Tensor& x) { return x * w; }
  at::Tensor w;
};
struct DropoutModelImpl : nn::Module {
  DropoutModelImpl() {
    unit = register_module("unit", Unit<DropsImpl>::make());
    other = register_module("other", Unit<DropsImpl>::make());
    unused = register_module("unused", Unit<WeightImpl>::make());
  }
  // Of two calls of one unit, of another unit, and of the root.
  std::vector<at::Tensor> forward(const at::Tensor& x) {
    return {unit(x), unit(x), other(x), drop(x)};
  }
  Unit<DropsImpl> unit, other;
  Unit<WeightImpl> unused;
};

class CallSeedTest : public ::testing::Test {
 protected:
  CallSeedTest() {
    options.adam_threads = 1;
    options.device = DeviceChoice::kCpu;
    options.prefetch = 0;
  }
  using Masks = std::vector<std::vector<float>>;
  static Masks masks_of(const std::vector<at::Tensor>& results) {
    Masks masks;
    for (const at::Tensor& result : results) {
      const at::Tensor mask = result.detach().ne(0).to(at::kFloat).contiguous();
      masks.emplace_back(mask.data_ptr<float>(), mask.data_ptr<float>() + mask.numel());
    }
    return masks;
  }
  static at::Tensor input() { return torch::ones({64}).requires_grad_(); }
  static at::Tensor sum(const std::vector<at::Tensor>& results) {
    at::Tensor total = results.front().sum();
    for (size_t i = 1; i < results.size(); ++i) total = total + results[i].sum();
    return total;
  }
  Options options;
};

void expect_all_different(const std::vector<std::vector<std::vector<float>>>& forwards) {
  std::set<std::vector<float>> seen;
  size_t count = 0;
  for (const auto& masks : forwards) {
    seen.insert(masks.begin(), masks.end());
    count += masks.size();
  }
  EXPECT_EQ(seen.size(), count);
}

TEST_F(CallSeedTest, CallsForwardsMicroBatchesAndStepsDrawTheirOwn) {
  auto model = std::make_shared<DropoutModelImpl>();
  Engine engine(model, options, nullptr);
  std::vector<Masks> masks;
  const auto forward = [&] {
    const auto results = engine.forward(model, input());
    masks.push_back(masks_of(results));
    return sum(results);
  };
  forward();
  engine.backward(forward(), 1);  // the second forward of the first micro-batch
  engine.backward(forward(), 1);
  engine.step();
  forward();
  expect_all_different(masks);
}

TEST_F(CallSeedTest, ADrawDependsOnTheMicroBatchNotOnTheRank) {
  options.recompute = Recompute::kNone;  // so that only forwards draw
  std::vector<Masks> alone;
  {
    auto model = std::make_shared<DropoutModelImpl>();
    Engine engine(model, options, nullptr);
    for (int m = 0; m < 4; ++m) {
      const auto results = engine.forward(model, input());
      alone.push_back(masks_of(results));
      engine.backward(sum(results), 1);
    }
  }
  std::mutex turn;
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    const int rank = comm->rank();
    auto model = std::make_shared<DropoutModelImpl>();
    Engine engine(model, options, std::move(comm));
    for (int pass = 0; pass < 2; ++pass) {
      const auto results = [&] {
        const std::lock_guard lock(turn);
        return engine.forward(model, input());
      }();
      EXPECT_EQ(masks_of(results), alone[2 * pass + rank]) << rank << " " << pass;
      engine.backward(sum(results), 1);  // waits for the other rank
    }
  });
}

TEST_F(CallSeedTest, SeedsGiveOtherNumbers) {
  const auto masks = [&](uint64_t seed) {
    options.seed = seed;
    auto model = std::make_shared<DropoutModelImpl>();
    Engine engine(model, options, nullptr);
    return masks_of(engine.forward(model, input()));
  };
  EXPECT_EQ(masks(1), masks(1));
  expect_all_different({masks(1), masks(2)});
}

TEST_F(CallSeedTest, EvaluationsChangeNoLaterDraw) {
  std::vector<Masks> of_evaluations;
  const auto masks = [&](bool evaluates) {
    auto model = std::make_shared<DropoutModelImpl>();
    Engine engine(model, options, nullptr);
    engine.forward(model, input());
    for (int i = 0; evaluates && i < 2; ++i) {
      const torch::NoGradGuard no_grad;
      of_evaluations.push_back(masks_of(engine.forward(model, input())));
    }
    return masks_of(engine.forward(model, input()));
  };
  const Masks later = masks(true);
  EXPECT_EQ(later, masks(false));
  of_evaluations.push_back(later);
  expect_all_different(of_evaluations);
}

TEST_F(CallSeedTest, InEvalWithoutGradientsTorchsOwnNumbersAreDrawn) {
  auto model = std::make_shared<DropoutModelImpl>();
  auto plain = std::make_shared<DropoutModelImpl>();
  Engine engine(model, options, nullptr);
  model->eval();
  const torch::NoGradGuard no_grad;
  torch::manual_seed(5);
  const Masks drawn = masks_of(engine.forward(model, input()));
  const at::Tensor next = torch::rand({4});
  torch::manual_seed(5);
  EXPECT_EQ(drawn, masks_of(plain->forward(input())));
  EXPECT_TRUE(torch::equal(next, torch::rand({4})));
}

TEST_F(CallSeedTest, TheCallersGeneratorGoesOnAsIfNothingHadBeenDrawn) {
  auto model = std::make_shared<DropoutModelImpl>();
  Engine engine(model, options, nullptr);
  torch::manual_seed(5);
  const at::Tensor expected = torch::rand({4});
  torch::manual_seed(5);
  engine.backward(sum(engine.forward(model, input())), 1);
  EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
}

// ---- the same in recompute

struct ScaledDropsImpl : nn::Module {
  ScaledDropsImpl() { w = register_parameter("w", values({64}, 0.5, 2)); }
  at::Tensor forward(const at::Tensor& x) { return drop(x * w); }
  at::Tensor w;
};
struct DropsInTrainingImpl : nn::Module {
  DropsInTrainingImpl() {
    w = register_parameter("w", values({64}, 0.5, 2));
    dropout = register_module("dropout", nn::Dropout(0.5));
  }
  at::Tensor forward(const at::Tensor& x) { return dropout(x * w); }
  at::Tensor w;
  nn::Dropout dropout{nullptr};
};

class RecomputedDraws : public ::testing::TestWithParam<Recompute> {
 protected:
  RecomputedDraws() {
    options.adam_threads = 1;
    options.device = DeviceChoice::kCpu;
    options.recompute = GetParam();
  }
  Options options;
};

INSTANTIATE_TEST_SUITE_P(, RecomputedDraws,
                         ::testing::Values(Recompute::kUnit, Recompute::kNone));

TEST_P(RecomputedDraws, TheGradientBelongsToTheForwardsMask) {
  for (const bool trains : {true, false}) {
    auto model = std::make_shared<HolderImpl<ScaledDropsImpl>>();
    const at::Tensor w = values({64}, 0.5, 2);
    Engine engine(model, options, nullptr);
    model->train(trains);
    torch::manual_seed(8);
    // Several graphs at once, later ones first: nothing depends on the order.
    std::vector<at::Tensor> results;
    for (int i = 0; i < 3; ++i)
      results.push_back(engine.forward(model, torch::ones({2, 64})));
    torch::rand({100});  // the caller draws in between
    at::Tensor expected = torch::zeros({64});
    for (auto y = results.rbegin(); y != results.rend(); ++y) {
      expected = expected + y->detach().sum(0) / w;
      engine.backward(y->sum(), 1);
    }
    expect_near(engine.full_gradient("unit.w"), expected / 3);
  }
}

TEST_P(RecomputedDraws, TheModeIsThatOfTheForward) {
  for (const bool trains : {true, false}) {
    auto model = std::make_shared<HolderImpl<DropsInTrainingImpl>>();
    Engine engine(model, options, nullptr);
    model->train(trains);
    const at::Tensor y = engine.forward(model, torch::ones({2, 64}));
    EXPECT_EQ(y.ne(0).all().item<bool>(), !trains);
    model->train(!trains);
    engine.backward(y.sum(), 1);
    expect_near(engine.full_gradient("unit.w"), y.detach().sum(0) / values({64}, 0.5, 2));
    EXPECT_EQ(model->unit->dropout->is_training(), !trains) << "as the caller left it";
  }
}

int train_disturbed(const Options& options) {
  auto model = std::make_shared<HolderImpl<DisturbedImpl<ScaledDropsImpl>>>();
  Engine engine(model, options, nullptr);
  const at::Tensor y = engine.forward(model, torch::ones({2, 64}));
  const std::string error = error_of([&] { engine.backward(y.sum(), 1); });
  std::fputs(error.c_str(), stderr);
  return 7;
}

TEST_P(RecomputedDraws, AnotherThreadThatDrawsIsNamed) {
  if (GetParam() == Recompute::kNone) GTEST_SKIP() << "nothing is drawn again";
  // In a process of its own, where ranks have never been threads.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(train_disturbed(options)), ExitedWithCode(7),
              "another thread draws(.|\n)*unit(.|\n)*make_generator");
}

}  // namespace
}  // namespace zero::testing::call_seed_test
