// What an engine takes and what it refuses; a refusal leaves the model as it was.
#include "tests/engine/unit_contract.h"
#include "zero/deferred_init.h"

namespace zero::testing::engine_construction_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace nn = torch::nn;

struct ScaleImpl : nn::Module {
  ScaleImpl() { w = register_parameter("w", torch::ones({3})); }
  at::Tensor forward(const at::Tensor& x) { return x * w; }
  at::Tensor w;
};
struct ModelImpl : nn::Module {
  ModelImpl() {
    w = register_parameter("w", torch::ones({3}));
    unit = register_module("unit", Unit<ScaleImpl>::make());
  }
  at::Tensor forward(const at::Tensor& x) { return unit(x * w).sum(); }
  at::Tensor w;
  Unit<ScaleImpl> unit{nullptr};
};

class EngineConstruction : public ::testing::TestWithParam<int> {
 protected:
  EngineConstruction() {
    options.adam_threads = 1;
    options.device = DeviceChoice::kCpu;
  }
  Options options;
};

INSTANTIATE_TEST_SUITE_P(, EngineConstruction, ::testing::Values(1, 2));

TEST_P(EngineConstruction, WhatThrowsLeavesTheModelAsItWas) {
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<ModelImpl>();
    const auto refuse = [&](auto change, const std::string& text) {
      Options bad = options;
      change(bad);
      auto copy = comm->duplicate();
      EXPECT_THAT(error_of([&] { Engine(model, bad, std::move(copy)); }),
                  HasSubstr(text));
      EXPECT_EQ(model->forward(torch::ones({3})).item<float>(), 3);
    };
    refuse([](Options& o) { o.groups = {{"nobody", 1, {}, false}}; }, "nobody");
    refuse([](Options& o) { o.groups = {{"w", -1, {}, false}}; }, "parameter group 'w'");
    refuse([](Options& o) { o.groups = {{"w", NAN, {}, false}}; }, "parameter group 'w'");
    refuse([](Options& o) { o.groups = {{"w", 1, -0.5, false}}; }, "parameter group 'w'");
    refuse([](Options& o) { o.auto_wrap.types = {"Nobody"}; }, "Nobody");
    refuse([](Options& o) { o.accumulate = Accumulate::kUnit; }, "micro_batch");
    refuse([](Options& o) { o.micro_batches_per_rank = 0; }, "micro_batches_per_rank");
    Engine engine(model, options, std::move(comm));
    engine.backward(engine.forward(model, torch::ones({3})), 1);
    EXPECT_FALSE(engine.step().skipped);
  });
}

// Engines and plans ask the same.
TEST_P(EngineConstruction, EachOptionHasItsRange) {
  struct Range {
    std::string name;
    std::function<void(Options&)> leave;
  };
  const std::vector<Range> ranges = {
      {"beta1", [](Options& o) { o.optimizer.beta1 = 1; }},
      {"eps", [](Options& o) { o.optimizer.eps = -1; }},
      {"weight_decay", [](Options& o) { o.optimizer.weight_decay = NAN; }},
      {"lr is", [](Options& o) { o.schedule.lr = -1; }},
      {"beyond what a float holds",
       [](Options& o) { o.schedule.lr = o.optimizer.weight_decay = 1e20; }},
      {"clip", [](Options& o) { o.clip = NAN; }},
      {"clip", [](Options& o) { o.clip = -1; }},
      {"prefetch", [](Options& o) { o.prefetch = -1; }},
      {"nominal_targets", [](Options& o) { o.nominal_targets = 0; }},
      {"nominal_targets", [](Options& o) { o.nominal_targets = 1e31; }},
      {"nominal_targets", [](Options& o) { o.nominal_targets = NAN; }},
      {"adam_threads", [](Options& o) { o.adam_threads = -1; }},
      {"adam_threads", [](Options& o) { o.adam_threads = 4097; }},
  };
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<ModelImpl>();
    for (const auto& [name, leave] : ranges) {
      Options bad = options;
      leave(bad);
      auto copy = comm->duplicate();
      EXPECT_THAT(error_of([&] { Engine(model, bad, std::move(copy)); }),
                  HasSubstr(name));
      EXPECT_THAT(error_of([&] { plan(*model, bad, GetParam()); }), HasSubstr(name));
    }
    EXPECT_THAT(error_of([&] { plan(*model, options, 0); }), HasSubstr("0 ranks"));
    EXPECT_NO_THROW(plan(*model, options, GetParam()));
  });
}

struct UnsetImpl : ModelImpl {
  UnsetImpl() {
    w.set_data(torch::empty({3}));
    unit->w.set_data(torch::empty({3}));
  }
};

TEST_P(EngineConstruction, ADeferredModelWithoutRulesMayBeGivenThemLater) {
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    std::shared_ptr<ModelImpl> model;
    {
      const DeferredInit guard;
      model = std::make_shared<UnsetImpl>();
    }
    auto copy = comm->duplicate();
    EXPECT_THAT(error_of([&] { Engine(model, options, std::move(copy)); }),
                AllOf(HasSubstr("w, unit.w"), HasSubstr("Options::init")));
    Options mine = options;
    mine.init = {{"*", constant(2)}};
    Engine engine(model, mine, std::move(comm));
    EXPECT_EQ(engine.forward(model, torch::ones({3})).item<float>(), 12);
  });
}

TEST_P(EngineConstruction, AModuleThatComesLateIsNamed) {
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<ModelImpl>();
    Engine engine(model, options, std::move(comm));
    model->register_module("late", std::make_shared<ScaleImpl>());
    EXPECT_THAT(error_of([&] { engine.forward(model, torch::ones({3})); }),
                AllOf(HasSubstr("came after the engine was made"), HasSubstr("late.w")));
    model->unregister_module("late");
    engine.backward(engine.forward(model, torch::ones({3})), 1);
    EXPECT_FALSE(engine.step().skipped);
  });
}

TEST_P(EngineConstruction, OneEnginePerModelWithUnitsOrWithout) {
  const auto refuse_second = [&](auto model) {
    on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
      auto mine = model();
      auto second = comm->duplicate(), third = comm->duplicate();
      const std::string text = "belong to a zero::Engine";
      {
        Engine engine(mine, options, std::move(comm));
        EXPECT_THAT(error_of([&] { Engine(mine, options, std::move(second)); }),
                    AllOf(HasSubstr(text), HasSubstr("make one engine per model")));
        EXPECT_NO_THROW(engine.forward(mine, torch::ones({3})));
      }
      EXPECT_THAT(error_of([&] { Engine(mine, options, std::move(third)); }),
                  HasSubstr(text))
          << "the engine is gone, and the parameters with it";
    });
  };
  refuse_second([] { return std::make_shared<ModelImpl>(); });
  refuse_second([] { return std::make_shared<ScaleImpl>(); });
}

TEST_P(EngineConstruction, AModelThatIsNoneIsRefused) {
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    EXPECT_THAT(error_of([&] { Engine(nullptr, options, std::move(comm)); }),
                HasSubstr("no model"));
  });
}

TEST_P(EngineConstruction, InferenceModeIsForForwardAlone) {
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<ModelImpl>();
    const at::Tensor x = torch::ones({3});
    auto second = comm->duplicate(), third = comm->duplicate();
    {
      const c10::InferenceMode guard;
      EXPECT_THAT(error_of([&] { Engine(model, options, std::move(second)); }),
                  HasSubstr("inside c10::InferenceMode"));
    }
    const auto made_inside = [] {
      const c10::InferenceMode guard;
      return std::make_shared<ModelImpl>();
    }();
    EXPECT_THAT(error_of([&] { Engine(made_inside, options, std::move(third)); }),
                HasSubstr("make the model outside"));
    Engine engine(model, options, std::move(comm));
    const at::Tensor loss = engine.forward(model, x);
    {
      const c10::InferenceMode guard;
      EXPECT_EQ(engine.forward(model, x).item<float>(), 3);
      EXPECT_THAT(error_of([&] { engine.backward(loss, 1); }),
                  HasSubstr("inside c10::InferenceMode"));
    }
    EXPECT_THAT(error_of([&] { engine.backward(at::complex(loss, loss), 1); }),
                HasSubstr("ComplexFloat"));
    engine.backward(loss, 1);
    EXPECT_FALSE(engine.step().skipped);
  });
}

// Legal names that other globs would take for sets of characters.
struct BracketsImpl : nn::Module {
  BracketsImpl() {
    brackets = register_parameter("x[0]", torch::ones({3}));
    plain = register_parameter("x0", torch::ones({3}));
  }
  at::Tensor forward(const at::Tensor& x) { return (x * brackets * plain).sum(); }
  at::Tensor brackets, plain;
};

TEST_P(EngineConstruction, APatternWithBracketsMatchesThatNameAlone) {
  options.groups = {{"x[0]", 1, {}, true}};
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<BracketsImpl>();
    Engine engine(model, options, std::move(comm));
    for (const ShardView& view : engine.shards())
      EXPECT_EQ(view.frozen, view.fqn == "x[0]") << view.fqn;
    EXPECT_FALSE(model->brackets.requires_grad());
    EXPECT_TRUE(model->plain.requires_grad());
  });
}

TEST_P(EngineConstruction, FrozenOnesNeedNoGradientWhateverTheyCameWith) {
  options.groups = {{"unit.w", 1, {}, true}};
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<ModelImpl>();
    Engine engine(model, options, std::move(comm));
    EXPECT_FALSE(model->unit->w.requires_grad());
    EXPECT_TRUE(model->w.requires_grad());
  });
}

TEST(PlanGroups, CountsWhatEachGroupHoldsForAndTheRest) {
  ModelImpl model;
  Options options;
  options.groups = {{"unit.*", 0.5}};
  const std::vector<GroupShare> shares = plan_groups(model, options);
  ASSERT_EQ(shares.size(), 2u);
  for (const GroupShare& share : shares) {
    EXPECT_EQ(share.num_parameters, 1);
    EXPECT_EQ(share.numel, 3);
  }
  options.groups = {{"*", 2}};
  EXPECT_EQ(plan_groups(model, options)[0].numel, 6);
  EXPECT_EQ(plan_groups(model, options)[1].num_parameters, 0);
}

}  // namespace
}  // namespace zero::testing::engine_construction_test
