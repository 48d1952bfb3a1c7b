// Functions that give a model its first values, and what is proved about them.
#include "zero/init_functions.h"

#include "engine/watch/activity.h"
#include "tests/engine/first_values.h"
#include "tests/engine/small_models.h"
#include "tests/engine/training.h"
#include "zero/deferred_init.h"
#include "zero/save_load.h"

namespace zero::testing::init_functions_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
namespace nn = torch::nn;

// Two linear layers that nothing initialises but a function, and a scale of its own.
struct BlockImpl : nn::Module {
  BlockImpl() {
    up = register_module("up", nn::Linear(6, 8));
    down = register_module("down", nn::Linear(8, 6));
    scale = register_parameter("scale", torch::empty({6}));
    table = register_buffer("table", torch::empty({3}));
  }
  // As models do it: all below, too.
  void reset_parameters() {
    for (nn::Linear* layer : {&up, &down}) {
      nn::init::normal_((*layer)->weight, 0, 0.5);
      nn::init::constant_((*layer)->bias, 2);
    }
    nn::init::ones_(scale);
    table.fill_(7);
  }
  at::Tensor forward(const at::Tensor& x) { return down(up(x)) * scale; }
  nn::Linear up{nullptr}, down{nullptr};
  at::Tensor scale, table;
};

struct TiedImpl : nn::Module {
  explicit TiedImpl(const at::Tensor& embedding) {
    weight = register_parameter("weight", embedding);
  }
  at::Tensor weight;
};

// An embedding whose weight the head shares.
struct SmallImpl : nn::Module {
  SmallImpl() {
    embedding = register_module("embedding", nn::Embedding(50, 6));
    blocks = register_module(
        "blocks", UnitList<BlockImpl>(std::make_shared<UnitListImpl<BlockImpl>>()));
    for (int i = 0; i < 2; ++i) blocks->push_back(Unit<BlockImpl>::make());
    head = register_module("head", std::make_shared<TiedImpl>(embedding->weight));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = embedding(tokens);
    for (auto& block : *blocks) x = block.value()(x);
    return x.matmul(head->weight.t()).sum();
  }
  nn::Embedding embedding{nullptr};
  UnitList<BlockImpl> blocks{nullptr};
  std::shared_ptr<TiedImpl> head;
};

std::shared_ptr<SmallImpl> small() {
  const DeferredInit guard;
  return std::make_shared<SmallImpl>();
}

Options quiet() {
  Options options;
  options.device = DeviceChoice::kCpu;
  options.adam_threads = 1;
  options.init_report = true;
  return options;
}

// As for GPT-2: linear layers and embeddings, then what is left.
InitDone as_usual(const InitCall& call) {
  if (auto* linear = call.module.as<nn::LinearImpl>()) {
    nn::init::normal_(linear->weight, 0, 0.02);
    if (linear->bias.defined()) nn::init::zeros_(linear->bias);
  } else if (auto* embedding = call.module.as<nn::EmbeddingImpl>()) {
    embedding->weight.normal_(0, 0.1, call.generator);
  } else if (auto* block = dynamic_cast<BlockImpl*>(&call.module)) {
    block->scale.fill_(3);
    block->table.copy_(torch::arange(3));
  }
  return InitDone::kAll;
}

using Values = std::map<std::string, at::Tensor>;

Values values_of(const Options& options, int ranks = 1,
                 std::vector<InitEntry>* report = nullptr) {
  return full_values(ranks, options, small, [&](Engine& engine) {
    if (report) *report = engine.init_report();
  });
}

std::string refusal(const Options& options, int ranks = 1) {
  return error_of([&] { values_of(options, ranks); });
}

TEST(InitFunctions, AreCalledOnceForEachModuleThatOwnsAnythingTopDown) {
  Options options = quiet();
  std::vector<std::string> called;
  options.param_init = [&](const InitCall& call) {
    called.push_back(call.fqn);
    return as_usual(call);
  };
  values_of(options);
  EXPECT_THAT(called, ElementsAre("embedding", "blocks.0", "blocks.0.up", "blocks.0.down",
                                  "blocks.1", "blocks.1.up", "blocks.1.down"));
}

TEST(InitFunctions, RunWhileAllBytesOfTheShardAreExpected) {
  Options options = quiet();
  std::set<int64_t> expected;
  options.param_init = [&](const InitCall& call) {
    expected.insert(Activity::here().progress()->total_bytes);
    return as_usual(call);
  };
  values_of(options);
  const int64_t block = (6 * 8 + 8) + (8 * 6 + 6) + 6;
  EXPECT_THAT(expected, ElementsAre((50 * 6 + 2 * block) * 4));
}

TEST(InitFunctions, MakeTheSameBitsOnAnyRanks) {
  Options options = quiet();
  options.param_init = as_usual;
  const Values one = values_of(options);
  EXPECT_NEAR(one.at("embedding.weight").std().item<double>(), 0.1, 0.05);
  EXPECT_TRUE(torch::equal(one.at("blocks.1.scale"), torch::full({6}, 3.0f)));
  EXPECT_TRUE(torch::equal(one.at("blocks.1.table"), torch::arange(3).to(at::kFloat)));
  EXPECT_FALSE(torch::equal(one.at("blocks.0.up.weight"), one.at("blocks.1.up.weight")));
  for (const int ranks : {2, 3, 4}) {
    for (const auto& [name, value] : values_of(options, ranks))
      EXPECT_TRUE(torch::equal(value, one.at(name))) << name << " on " << ranks;
  }
  options.seed = 5;
  EXPECT_FALSE(torch::equal(values_of(options).at("blocks.0.up.weight"),
                            one.at("blocks.0.up.weight")));
}

TEST(InitFunctions, LeaveTorchsGeneratorAsItWas) {
  Options options = quiet();
  options.param_init = as_usual;
  torch::manual_seed(9);
  const at::Tensor expected = torch::rand({4});
  torch::manual_seed(9);
  values_of(options);
  EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
}

TEST(InitFunctions, MayNotWriteWhatIsNotTheirs) {
  Options options = quiet();
  const auto refused = [&](const std::function<void(const InitCall&)>& more) {
    options.param_init = [&](const InitCall& call) {
      more(call);
      return as_usual(call);
    };
    return refusal(options);
  };
  EXPECT_THAT(refused([](const InitCall& call) {
                if (auto* block = dynamic_cast<BlockImpl*>(&call.module))
                  block->reset_parameters();
              }),
              AllOf(HasSubstr("the init function of blocks.0 uses blocks.0.up.weight"),
                    HasSubstr("aten::normal_")));
}

TEST(InitFunctions, ABufferOfAnotherModuleIsNotTheirs) {
  struct TwoImpl : nn::Module {
    TwoImpl() {
      a = register_module("a", nn::BatchNorm1d(2));
      b = register_module("b", nn::BatchNorm1d(2));
    }
    nn::BatchNorm1d a{nullptr}, b{nullptr};
  };
  std::shared_ptr<TwoImpl> model;
  {
    const DeferredInit guard;
    model = std::make_shared<TwoImpl>();
  }
  Options options = quiet();
  options.param_init = [&](const InitCall& call) {
    if (call.fqn == "b") model->a->running_mean.fill_(4);
    return InitDone::kLeftRest;
  };
  EXPECT_THAT(error_of([&] { Engine(model, options); }),
              HasSubstr("the init function of b writes a.running_mean"));
}

TEST(InitFunctions, MayLiveInModulesThatAreHeldTwice) {
  struct TwiceImpl : nn::Module {
    TwiceImpl() {
      norm = register_module("a", nn::BatchNorm1d(2));
      register_module("b", norm.ptr());
    }
    nn::BatchNorm1d norm{nullptr};
  };
  const auto make = [] {
    const DeferredInit guard;
    return std::make_shared<TwiceImpl>();
  };
  Options options = quiet();
  options.param_init = [](const InitCall& call) {
    if (auto* norm = call.module.as<nn::BatchNorm1dImpl>()) norm->weight.fill_(2);
    return InitDone::kLeftRest;
  };
  EXPECT_NO_THROW(Engine(make(), options));
  options.param_init = {};
  options.init_types = {init_type<nn::BatchNorm1dImpl>(
      [](nn::BatchNorm1dImpl& m, const InitCall&) { m.reset_parameters(); })};
  EXPECT_NO_THROW(Engine(make(), options));
}

TEST(InitFunctions, TheirErrorsAreNamed) {
  Options options = quiet();
  options.param_init = [](const InitCall& call) {
    if (call.fqn == "blocks.0") call.module.parameters(false)[0].copy_(torch::ones({5}));
    return as_usual(call);
  };
  EXPECT_THAT(refusal(options, 2), AllOf(HasSubstr("must match the size"),
                                         HasSubstr("the init function of blocks.0")));
}

TEST(FirstValues, RulesAreForParametersThatHaveMemoryToo) {
  struct ScaledImpl : nn::Module {
    ScaledImpl() {
      scale = register_parameter("scale", torch::tensor(2.66f));
      other = register_parameter("other", torch::zeros({3}));
    }
    at::Tensor scale, other;
  };
  const auto scale_with = [](const Options& options) {
    std::shared_ptr<ScaledImpl> model;
    {
      const DeferredInit guard;
      model = std::make_shared<ScaledImpl>();
    }
    return Engine(model, options).full_parameter("scale").item<float>();
  };
  Options options = quiet();
  EXPECT_EQ(scale_with(options), 2.66f);
  options.init = {{"scale", constant(1)}};
  EXPECT_EQ(scale_with(options), 1);
}

TEST(InitFunctions, MayWriteWhatHasMemory) {
  struct ScaleImpl : nn::Module {
    ScaleImpl() { scale = register_parameter("scale", torch::tensor(2.66f)); }
    at::Tensor scale;
  };
  struct RootImpl : nn::Module {
    RootImpl() {
      register_module("linear", nn::Linear(6, 8));
      register_module("own", std::make_shared<ScaleImpl>());
    }
  };
  Options options = quiet();
  options.param_init = [](const InitCall& call) {
    if (auto* own = dynamic_cast<ScaleImpl*>(&call.module)) own->scale.fill_(5);
    return InitDone::kLeftRest;
  };
  std::shared_ptr<RootImpl> model;
  {
    const DeferredInit guard;
    model = std::make_shared<RootImpl>();
  }
  EXPECT_EQ(Engine(model, options).full_parameter("own.scale").item<float>(), 5);
}

TEST(InitFunctions, MustWriteAllOrSaySo) {
  Options options = quiet();
  options.param_init = [](const InitCall& call) {
    if (auto* linear = call.module.as<nn::LinearImpl>()) linear->bias.zero_();
    return InitDone::kAll;
  };
  EXPECT_THAT(refusal(options), AllOf(HasSubstr("the init function of embedding"),
                                      HasSubstr("embedding.weight: 300 of 300 elements"),
                                      HasSubstr("kLeftRest")));
  options.param_init = [](const InitCall& call) {
    if (auto* linear = call.module.as<nn::LinearImpl>()) linear->weight[0].zero_();
    return InitDone::kLeftRest;  // a row is no whole parameter
  };
  options.init = {{"*.scale", ones()}};
  EXPECT_THAT(refusal(options), HasSubstr("blocks.0.up.weight: 42 of 48 elements"));
}

TEST(InitFunctions, WhatTheyLeaveIsForRulesThenForTheConstructor) {
  Options options = quiet();
  options.param_init = [](const InitCall& call) {
    if (auto* linear = call.module.as<nn::LinearImpl>()) linear->bias.fill_(5);
    if (auto* block = dynamic_cast<BlockImpl*>(&call.module)) block->table.zero_();
    return InitDone::kLeftRest;
  };
  options.init = {{"*.scale", constant(4)}, {"*.bias", constant(9)}};
  std::vector<InitEntry> report;
  const Values values = values_of(options, 2, &report);
  EXPECT_TRUE(torch::equal(values.at("blocks.0.up.bias"), torch::full({8}, 5.0f)));
  EXPECT_TRUE(torch::equal(values.at("blocks.0.scale"), torch::full({6}, 4.0f)));
  EXPECT_LE(values.at("blocks.0.up.weight").abs().max().item<double>(),
            1 / std::sqrt(6.0));
  std::map<std::string, std::string> who;
  for (const InitEntry& entry : report)
    who[entry.fqn] = entry.who + "; " + entry.distribution;
  EXPECT_EQ(who["blocks.0.up.bias"], "function of blocks.0.up; ");
  EXPECT_EQ(who["blocks.0.scale"], "rule *.scale; constant(4)");
  EXPECT_THAT(who["blocks.0.up.weight"],
              HasSubstr("constructor; uniform(-0.408248, 0.408248)"));
  EXPECT_EQ(who["blocks.0.table"], "function of blocks.0; ");
  EXPECT_FALSE(who.contains("head.weight"));  // tied
}

struct CountedImpl : nn::Module {
  CountedImpl() {
    w = register_parameter("w", torch::empty({2}));
    steps = register_buffer("steps", torch::zeros({2}));
    table = register_buffer("table", torch::zeros({2}));
  }
  at::Tensor forward(const at::Tensor& x) { return (x * w).sum(); }
  at::Tensor w, steps, table;
};

TEST(InitReport, ABufferThatAFunctionLeftHasItsConstructorsValues) {
  Options options = quiet();
  options.param_init = [](const InitCall& call) {
    if (auto* counted = dynamic_cast<CountedImpl*>(&call.module))
      counted->w.fill_(2), counted->table.fill_(3);
    return InitDone::kLeftRest;
  };
  const auto model = [] {
    const DeferredInit guard;
    return std::make_shared<CountedImpl>();
  }();
  Engine engine(model, options);
  std::map<std::string, std::string> who;
  for (const InitEntry& entry : engine.init_report()) who[entry.fqn] = entry.who;
  EXPECT_THAT(who["w"], HasSubstr("function of"));
  EXPECT_THAT(who["table"], HasSubstr("function of"));
  EXPECT_EQ(who["steps"], "constructor");
}

// A rule may know the head's name alone; draws go by the first name all the same.
TEST(InitRulesOfTiedParameters, CountUnderEveryName) {
  Options options = quiet();
  options.param_init = [](const InitCall& call) {
    if (auto* block = dynamic_cast<BlockImpl*>(&call.module))
      block->scale.zero_(), block->table.zero_();
    return InitDone::kLeftRest;
  };
  const auto embedding = [&](const std::string& pattern, int ranks, std::string& who) {
    options.init = {{pattern, normal(0, 0.5)}, {"embedding.*", constant(9)}};
    std::vector<InitEntry> report;
    const Values values = values_of(options, ranks, &report);
    for (const InitEntry& entry : report) {
      if (entry.fqn == "embedding.weight") who = entry.who;
    }
    return values.at("embedding.weight");
  };
  std::string who;
  const at::Tensor by_first_name = embedding("embedding.weight", 1, who);
  for (const int ranks : {1, 2}) {
    EXPECT_TRUE(torch::equal(embedding("head.weight", ranks, who), by_first_name));
    EXPECT_EQ(who, "rule head.weight");
  }
}

// --- types

Options with_types() {
  Options options = quiet();
  options.init_types = {
      init_type<BlockImpl>([](BlockImpl& m, const InitCall&) { m.reset_parameters(); }),
      init_type<nn::EmbeddingImpl>([](nn::EmbeddingImpl& m, const InitCall&) {
        nn::init::normal_(m.weight, 0, 0.1);
      })};
  return options;
}

TEST(InitTypes, InitialiseModulesWithAllThatIsBelowThem) {
  const Values one = values_of(with_types());
  EXPECT_TRUE(torch::equal(one.at("blocks.0.down.bias"), torch::full({6}, 2.0f)));
  EXPECT_NEAR(one.at("blocks.0.up.weight").std().item<double>(), 0.5, 0.2);
  EXPECT_TRUE(torch::equal(one.at("blocks.1.table"), torch::full({3}, 7.0f)));
  for (const auto& [name, value] : values_of(with_types(), 3))
    EXPECT_TRUE(torch::equal(value, one.at(name))) << name;
}

TEST(InitTypes, MustNotCoverAnythingTwice) {
  Options options = with_types();
  bool has_run = false;
  options.init_types.push_back(init_type<nn::LinearImpl>(
      [&](nn::LinearImpl&, const InitCall&) { has_run = true; }));
  EXPECT_THAT(refusal(options),
              AllOf(HasSubstr("blocks.0.up (torch::nn::LinearImpl) lies inside blocks.0"),
                    HasSubstr("blocks.1.down")));
  EXPECT_FALSE(has_run);
  options = with_types();
  options.init_types.push_back(
      init_type<nn::Module>([](nn::Module&, const InitCall&) {}));
  EXPECT_THAT(refusal(options), HasSubstr("is both"));
}

TEST(InitTypes, MustCoverEverything) {
  Options options = with_types();
  bool has_run = false;
  options.init_types = {init_type<nn::LinearImpl>(
      [&](nn::LinearImpl&, const InitCall&) { has_run = true; })};
  EXPECT_THAT(refusal(options),
              AllOf(HasSubstr("embedding.weight of torch::nn::EmbeddingImpl"),
                    HasSubstr("blocks.0.scale of"), HasSubstr("blocks.1.table of"),
                    Not(HasSubstr("up.weight"))));
  EXPECT_FALSE(has_run);
}

TEST(InitTypes, MustWriteAllThatTheyCover) {
  Options options = with_types();
  options.init_types[0] =
      init_type<BlockImpl>([](BlockImpl& m, const InitCall&) { m.scale.fill_(1); });
  EXPECT_THAT(refusal(options),
              AllOf(HasSubstr("blocks.0.up.weight: 48 of 48 elements"),
                    HasSubstr("where: Options::init_types"), Not(HasSubstr("kLeftRest")),
                    Not(HasSubstr("blocks.0.scale"))));
}

// --- afterwards

TEST(PostInit, ReadsAndWritesFullParameters) {
  Options options = quiet();
  options.param_init = as_usual;
  options.post_init = [](Engine& engine, nn::Module&) {
    engine.set_full_parameter("blocks.1.scale",
                              engine.full_parameter("blocks.0.scale") * 2);
    engine.set_buffer("blocks.0.table", torch::ones({3}));
  };
  for (const int ranks : {1, 3}) {
    std::vector<InitEntry> report;
    const Values values = values_of(options, ranks, &report);
    EXPECT_TRUE(torch::equal(values.at("blocks.1.scale"), torch::full({6}, 6.0f)));
    EXPECT_TRUE(torch::equal(values.at("head.weight"), values.at("embedding.weight")));
    std::vector<std::string> written;
    for (const InitEntry& entry : report) {
      if (entry.after_post_init) written.push_back(entry.fqn);
    }
    EXPECT_THAT(written, ElementsAre("blocks.1.scale", "blocks.0.table"));
  }
  options.post_init = [](Engine& engine, nn::Module&) {
    engine.set_full_parameter("blocks.1.scale", torch::full({6}, NAN));
  };
  EXPECT_THAT(refusal(options),
              AllOf(HasSubstr("not finite"), HasSubstr("blocks.1.scale")));
  options.post_init = [](Engine& engine, nn::Module&) {
    engine.set_full_parameter("blocks.1.scale", torch::full({6}, INFINITY));
  };
  EXPECT_THAT(refusal(options), HasSubstr("not finite"));
  options.post_init = [](Engine& engine, nn::Module&) {
    engine.set_buffer("blocks.0.table", torch::full({3}, -INFINITY));
  };
  EXPECT_NO_THROW(values_of(options)) << "a mask may have them";
  options.post_init = [](Engine& engine, nn::Module&) {
    engine.set_buffer("blocks.0.table", torch::full({3}, NAN));
  };
  EXPECT_THAT(refusal(options), HasSubstr("post_init writes NaN"));
}

// --- the audit

TEST(InitReport, IsTheSameOnAnyRanks) {
  Options options = quiet();
  options.param_init = as_usual;
  std::vector<InitEntry> one;
  values_of(options, 1, &one);
  ASSERT_EQ(one.size(), 11 + 2u);
  for (const int ranks : {2, 4}) {
    std::vector<InitEntry> several;
    values_of(options, ranks, &several);
    ASSERT_EQ(several.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i) {
      SCOPED_TRACE(one[i].fqn);
      EXPECT_EQ(several[i].fqn, one[i].fqn);
      EXPECT_EQ(several[i].who, one[i].who);
      EXPECT_EQ(several[i].numel, one[i].numel);
      EXPECT_EQ(several[i].mean, one[i].mean);
      EXPECT_EQ(several[i].std, one[i].std);
      EXPECT_EQ(several[i].checksum, one[i].checksum);
    }
  }
}

TEST(InitReport, HasTheMomentsOfTheValues) {
  Options options = quiet();
  options.param_init = as_usual;
  std::vector<InitEntry> report;
  const Values values = values_of(options, 2, &report);
  for (const InitEntry& entry : report) {
    const at::Tensor numbers = values.at(entry.fqn).to(at::kDouble);
    EXPECT_EQ(entry.numel, numbers.numel()) << entry.fqn;
    EXPECT_NEAR(entry.mean, numbers.mean().item<double>(), 1e-12) << entry.fqn;
    EXPECT_NEAR(entry.std, numbers.std(false).item<double>(), 1e-9) << entry.fqn;
  }
  Options silent = options;
  silent.init_report = false;
  EXPECT_THAT(error_of([&] {
                Engine engine(small(), silent);
                engine.init_report();
              }),
              HasSubstr("Options::init_report = true"));
}

TEST(FirstValues, ThatAreNotFiniteAreRefused) {
  Options options = quiet();
  options.param_init = [](const InitCall& call) {
    const InitDone done = as_usual(call);
    if (call.fqn == "blocks.1.down")
      call.module.as<nn::LinearImpl>()->weight[5][7] = INFINITY;
    return done;
  };
  for (const int ranks : {1, 3})
    EXPECT_THAT(refusal(options, ranks),
                AllOf(HasSubstr("not finite"), HasSubstr("blocks.1.down.weight: 1")));
}

TEST(FirstValues, NanInABufferIsRefusedAndInfinityIsReported) {
  Options options = quiet();
  float value = NAN;
  options.param_init = [&](const InitCall& call) {
    const InitDone done = as_usual(call);
    if (auto* block = dynamic_cast<BlockImpl*>(&call.module)) block->table[1] = value;
    return done;
  };
  EXPECT_THAT(refusal(options), AllOf(HasSubstr("buffers start with NaN"),
                                      HasSubstr("blocks.0.table, blocks.1.table")));
  value = -INFINITY;
  std::vector<InitEntry> report;
  values_of(options, 1, &report);
  EXPECT_EQ(report.back().num_infinite, 1);
  EXPECT_EQ(report.back().mean, 1);  // of 0 and 2
}

TEST(FirstValues, ABufferThatNothingWritesIsListed) {
  Options options = quiet();
  options.init = {{"*.scale", ones()}};
  EXPECT_THAT(refusal(options), AllOf(HasSubstr("blocks.0.table, blocks.1.table"),
                                      Not(HasSubstr("scale"))));
}

TEST(FirstValues, FunctionsAndHoldersOfValuesExcludeEachOther) {
  Options options = quiet();
  options.param_init = as_usual;
  options.source = Source::kRank0;
  EXPECT_THAT(refusal(options), HasSubstr("init functions with a source"));
}

// --- the scope

TEST(CheckInitialised, ListsAllThatIsNot) {
  const auto run = [](const std::shared_ptr<SmallImpl>& model, const Options& options) {
    const CheckInitialised check(model);
    Engine engine(model, options);
  };
  Options options = quiet();
  options.param_init = as_usual;
  EXPECT_NO_THROW(run(small(), options));
  const auto model = small();
  EXPECT_THAT(
      error_of([&] {
        const CheckInitialised check(model);
        for (const at::Tensor& param : model->blocks->operator[]("0")->parameters())
          materialize(param);
      }),
      AllOf(HasSubstr("parameter embedding.weight"), HasSubstr("buffer blocks.1.table"),
            HasSubstr("parameter blocks.0.scale"), Not(HasSubstr("blocks.0.up.weight"))));
  EXPECT_THAT(error_of([&] {
                const CheckInitialised check(small());
                throw Error(ExitCode::kUsage, "another one", "here", "");
              }),
              HasSubstr("another one"));
}

}  // namespace
}  // namespace zero::testing::init_functions_test
