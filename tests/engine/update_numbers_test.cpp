// Each parameter counts its own updates: one that was frozen for a while, one that a step
// did not use; against torch::optim::AdamW, whose state is kept by parameter.
#include <unistd.h>

#include <filesystem>
#include <set>

#include "tests/engine/small_models.h"
#include "zero/save_load.h"

namespace zero::testing::update_numbers_test {
namespace {

namespace fs = std::filesystem;
namespace nn = torch::nn;
using ::testing::ElementsAre;
using Names = std::set<std::string>;

// A root's parameter and two units, each of which a step may leave out; what rank 0
// leaves out of the root others may use.
struct OptionalImpl : nn::Module {
  OptionalImpl() {
    embed = register_parameter("embed", values({3, 3}));
    extra = register_parameter("extra", values({3, 3}, 0.5, 1));
    for (int i = 0; i < 2; ++i) units->push_back(Unit<ReluImpl>::make());
    register_module("units", units);
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = torch::matmul(x, embed);
    if (!left_out.contains("extra")) y = y + torch::matmul(x, extra);
    int i = 0;
    for (auto& unit : *units)
      if (!left_out.contains("units." + std::to_string(i++) + ".w"))
        y = unit.value()(y) + 0.1 * y;
    return y.pow(2).sum();
  }
  at::Tensor embed, extra;
  UnitList<ReluImpl> units{std::make_shared<UnitListImpl<ReluImpl>>()};
  Names left_out;
};

// Some steps of a run, which then saves and goes on.
struct Stretch {
  int steps = 1;
  Names frozen = {}, left_out = {};
};

class UpdateNumbers : public ::testing::TestWithParam<int> {
 protected:
  UpdateNumbers() {
    options.adam_threads = 1;
    options.device = DeviceChoice::kCpu;
    options.schedule.lr = 0.05;
    options.weight_decay_on = WeightDecayOn::kAll;
    fs::remove_all(run);
  }
  ~UpdateNumbers() override { fs::remove_all(run); }

  static at::Tensor batch(int step) { return values({4, 3}, -1 + 0.1 * step); }

  using Params = std::map<std::string, at::Tensor>;

  Params plain(const std::vector<Stretch>& story) const {
    auto model = std::make_shared<OptionalImpl>();
    torch::optim::AdamW adam(
        model->parameters(),
        torch::optim::AdamWOptions(0.05)
            .betas({options.optimizer.beta1, options.optimizer.beta2})
            .eps(options.optimizer.eps)
            .weight_decay(options.optimizer.weight_decay));
    int step = 0;
    for (const Stretch& stretch : story) {
      model->left_out = stretch.left_out;
      for (auto& item : model->named_parameters()) {
        const bool is_trained = !stretch.frozen.contains(item.key());
        if (is_trained && !item.value().requires_grad())
          adam.state().erase(item.value().unsafeGetTensorImpl());
        item.value().set_requires_grad(is_trained);
      }
      for (int i = 0; i < stretch.steps; ++i) {
        adam.zero_grad();
        model->forward(batch(step++)).backward();
        if (options.unused == Unused::kZeros)
          for (at::Tensor& param : model->parameters())
            if (param.requires_grad() && !param.grad().defined())
              param.mutable_grad() = torch::zeros_like(param);
        adam.step();
      }
    }
    return params_of(*model, [](const at::Tensor& param) { return param.detach(); });
  }

  template <class Value>
  static Params params_of(const nn::Module& model, Value value) {
    Params params;
    for (const auto& item : model.named_parameters())
      params[item.key()] = value(item.value());
    return params;
  }

  void expect_as_torch(const std::vector<Stretch>& story) {
    const Params expected = plain(story);
    on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
      int64_t step = 0;
      for (const Stretch& stretch : story) {
        auto model = std::make_shared<OptionalImpl>();
        Options mine = options;
        for (const std::string& fqn : stretch.frozen)
          mine.groups.push_back({.pattern = fqn, .frozen = true});
        Engine engine(model, mine, comm->duplicate());
        if (step > 0) {
          const SavedState loaded = load_checkpoint(engine, step_folder(step));
          if (engine.rank() == 0) told = loaded;
        }
        model->left_out = stretch.left_out;
        for (int i = 0; i < stretch.steps; ++i) {
          const at::Tensor loss = engine.forward(model, batch(static_cast<int>(step++)));
          engine.backward(loss, 1);
          engine.step();
        }
        SavedState state;
        state.step = step;
        save_checkpoint(engine, run, state);
        if (step < num_steps(story)) continue;
        for (const auto& [fqn, value] : expected) {
          SCOPED_TRACE(fqn);
          expect_near(engine.full_parameter(fqn), value);
        }
      }
    });
  }

  static int64_t num_steps(const std::vector<Stretch>& story) {
    int64_t steps = 0;
    for (const Stretch& stretch : story) steps += stretch.steps;
    return steps;
  }
  std::string step_folder(int64_t step) const {
    char name[32];
    std::snprintf(name, sizeof(name), "/step_%012d", static_cast<int>(step));
    return run + name;
  }

  const std::string run = ::testing::TempDir() + "numbers_" + std::to_string(getpid()) +
                          "_" + std::to_string(GetParam());
  Options options;
  SavedState told;  // by the last load
};

INSTANTIATE_TEST_SUITE_P(, UpdateNumbers, ::testing::Values(1, 2, 4));

TEST_P(UpdateNumbers, WhatThawsStartsAsTorchStartsItWithItsStateDeleted) {
  // Resumed before the change, at it, and behind it.
  expect_as_torch({{1, {"units.0.w", "embed"}},
                   {2, {"units.0.w", "embed"}},
                   {2, {"embed"}},
                   {1, {"embed"}},
                   {2}});
}

TEST_P(UpdateNumbers, WhatFreezesStaysAndStartsAgain) {
  expect_as_torch({{2}, {2, {"units.1.w"}}, {1, {"units.1.w", "extra"}}, {2}, {1}});
}

TEST_P(UpdateNumbers, ThawedAndFrozenOnesAreTold) {
  if (GetParam() > 1) GTEST_SKIP() << "once is enough";
  expect_as_torch({{1, {"embed"}}, {1, {"units.1.w"}}});
  EXPECT_THAT(told.thawed, ElementsAre("embed"));
  EXPECT_THAT(told.frozen, ElementsAre("units.1.w"));
}

TEST_P(UpdateNumbers, AFreshOptimizerCountsAnewForWhatHadThawedToo) {
  if (GetParam() > 1) GTEST_SKIP() << "once is enough";
  expect_as_torch({{1, {"embed"}}, {1}});
  Engine engine(std::make_shared<OptionalImpl>(), options, make_one_rank());
  load_checkpoint(engine, step_folder(2));
  EXPECT_EQ(engine.optimizer_start("embed"), 1);
  LoadOptions fresh;
  fresh.fresh_optimizer = true;
  load_checkpoint(engine, step_folder(2), fresh);
  EXPECT_EQ(engine.optimizer_start("embed"), 2);
}

TEST_P(UpdateNumbers, AnEngineThatHasTrainedForgetsTheMomentsOfWhatThaws) {
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    Options frozen = options;
    frozen.groups = {{"embed", 1, {}, true}};
    Engine engine(std::make_shared<OptionalImpl>(), frozen, comm->duplicate());
    save_checkpoint(engine, run, {});
    auto model = std::make_shared<OptionalImpl>();
    Engine other(model, options, std::move(comm));
    other.backward(other.forward(model, batch(0)), 1);
    other.step();
    load_checkpoint(other, step_folder(0));
    for (const StateView& state : other.local_shard("embed").state)
      EXPECT_THAT(state.values.span(), ::testing::Each(0)) << state.name;
  });
}

TEST_P(UpdateNumbers, WhatAStepDoesNotUseDecaysOrIsLeftAsOneAsks) {
  const std::vector<Stretch> story = {{1, {}, {"units.0.w"}},
                                      {2},
                                      {2, {}, {"units.1.w", "extra"}},
                                      {1, {}, {"extra"}},
                                      {2}};
  for (const Unused unused : {Unused::kZeros, Unused::kLeave}) {
    options.unused = unused;
    expect_as_torch(story);
    fs::remove_all(run);
  }
}

TEST_P(UpdateNumbers, WhatOneRankUsesIsUpdatedOnAll) {
  options.unused = Unused::kLeave;
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<OptionalImpl>();
    Engine engine(model, options, std::move(comm));
    const at::Tensor start = engine.full_parameter("extra");
    const auto step = [&](bool uses_it) {
      model->left_out = uses_it ? Names() : Names{"extra"};
      engine.backward(engine.forward(model, batch(0)), 1);
      engine.step();
      return !engine.full_parameter("extra").equal(start);
    };
    EXPECT_FALSE(step(false));
    EXPECT_EQ(engine.optimizer_start("extra"), 1);
    EXPECT_TRUE(step(engine.rank() + 1 == engine.size()));
    EXPECT_EQ(engine.optimizer_start("extra"), 1);
    EXPECT_EQ(engine.optimizer_start("embed"), 0);
  });
}

}  // namespace
}  // namespace zero::testing::update_numbers_test
