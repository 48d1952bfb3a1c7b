// What holds for some units: types inside, weights that stay gathered, and refusals.
#include "tests/engine/traffic_story.h"
#include "tests/engine/unit_contract.h"

namespace zero::testing::unit_options_test {
namespace {

using ::testing::HasSubstr;
namespace nn = torch::nn;

// Of each layer by its number: the types of its input and its weights.
std::map<int, std::vector<at::ScalarType>> seen;

struct LayerImpl : nn::Module {
  explicit LayerImpl(int number) : number(number) {
    w = register_parameter("w", values({8, 8}, -0.5, 0.7));
  }
  at::Tensor forward(const at::Tensor& x) {
    seen[number] = {x.scalar_type(), w.scalar_type()};
    return at::tanh(x.matmul(w));
  }
  const int number;
  at::Tensor w;
};
struct NetImpl : nn::Module {
  NetImpl() {
    head = register_parameter("head", values({8}, 0.1, 0.4));
    for (int i = 0; i < 3; ++i) layers->push_back(Unit<LayerImpl>(i));
    register_module("layers", layers);
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& layer : *layers) x = layer.value()(x);
    type_at_end = x.scalar_type();
    return (x * head).to(at::kFloat).sum();
  }
  at::Tensor head;
  UnitList<LayerImpl> layers{std::make_shared<UnitListImpl<LayerImpl>>()};
  at::ScalarType type_at_end = at::kFloat;
};

class UnitOptions : public ::testing::Test {
 protected:
  UnitOptions() {
    options.device = DeviceChoice::kCpu;
    options.adam_threads = 1;
  }

  static std::string name_of(size_t layer) {
    return "layers." + std::to_string(layer) + ".w";
  }

  // What plain LibTorch makes of it, with these types of the layers in a root of `outer`.
  std::pair<at::Tensor, std::vector<at::Tensor>> plain(
      const std::vector<at::ScalarType>& types, at::ScalarType outer) {
    NetImpl net;
    at::Tensor x = values({4, 8}).to(outer);
    std::vector<at::Tensor> weights;
    for (size_t i = 0; i < types.size(); ++i) {
      weights.push_back(net.named_parameters()[name_of(i)].detach().requires_grad_());
      x = at::tanh(x.to(types[i]).matmul(weights.back().to(types[i]))).to(outer);
    }
    const at::Tensor loss = (x * net.head.detach().to(outer)).to(at::kFloat).sum();
    loss.backward();
    for (at::Tensor& weight : weights) weight = weight.grad();
    return {loss.detach(), weights};
  }

  // The engine's numbers on one rank are those bits.
  void expect_bits(const std::vector<at::ScalarType>& types, at::ScalarType outer) {
    const auto [loss, grads] = plain(types, outer);
    for (const Recompute recompute : {Recompute::kUnit, Recompute::kNone}) {
      options.recompute = recompute;
      const auto net = std::make_shared<NetImpl>();
      Engine engine(net, options, make_one_rank());
      const at::Tensor made = engine.forward(net, values({4, 8}));
      EXPECT_TRUE(made.detach().equal(loss)) << made << loss;
      EXPECT_EQ(net->type_at_end, outer);
      for (size_t i = 0; i < types.size(); ++i)
        EXPECT_EQ(seen[static_cast<int>(i)], std::vector(2, types[i]));
      engine.backward(made, 1);
      for (size_t i = 0; i < types.size(); ++i)
        EXPECT_TRUE(engine.full_gradient(name_of(i)).equal(grads[i])) << i;
      const torch::NoGradGuard no_grad;
      engine.step();
    }
  }

  std::string refused() {
    return error_of([&] { plan_groups(*std::make_shared<NetImpl>(), options); });
  }

  Options options;
};

TEST_F(UnitOptions, SomeAreInFullPrecision) {
  options.dtype = DType::kBf16;
  options.unit_options = {{"layers.1", DType::kFp32}};
  expect_bits({at::kBFloat16, at::kFloat, at::kBFloat16}, at::kBFloat16);
}

TEST_F(UnitOptions, TheRootMayBeInFullPrecisionAlone) {
  options.dtype = DType::kBf16;
  options.unit_options = {{"(root)", DType::kFp32}};
  expect_bits({at::kBFloat16, at::kBFloat16, at::kBFloat16}, at::kFloat);
}

TEST_F(UnitOptions, SomeMayBeInBf16WhereTheOthersAreNot) {
  options.unit_options = {{"layers.[01]", DType::kBf16}, {"layers.2", DType::kFp32}};
  EXPECT_THAT(refused(), HasSubstr("'layers.[01]' matches no unit"));
  options.unit_options = {{"layers.0", DType::kBf16}, {"layers.1", DType::kBf16}};
  expect_bits({at::kBFloat16, at::kBFloat16, at::kFloat}, at::kFloat);
}

// All in one type is as Options::dtype says it, with its bits.
TEST_F(UnitOptions, AllInOneTypeIsAnEngineOfThatType) {
  const Work work{.steps = 2, .micro_batches = 4};
  Options given = small_options(work);
  const Trained fp32 = train(2, given, work);
  given.dtype = DType::kBf16;
  const Trained bf16 = train(2, given, work);
  given.unit_options = {{"*", DType::kFp32}};
  expect_same(train(2, given, work), fp32);
  given.dtype = DType::kFp32;
  given.unit_options = {{"*", DType::kBf16}};
  expect_same(train(2, given, work), bf16);
}

TEST_F(UnitOptions, SomeStayGathered) {
  const auto sizes = [] {
    return std::make_shared<SizesImpl>(
        std::vector<int64_t>{300, 300, 300, 300, 300, 300, 300, 300});
  };
  const Work work{.steps = 2, .micro_batches = 4};
  Options given = small_options(Work{.rows = 4});
  given.micro_batches_per_rank = 2;
  for (const bool others : {true, false}) {
    given.reshard_after_forward = others;
    given.unit_options = {{"units.1", {}, !others}, {"units.4", {}, !others}};
    expect_planned_traffic(2, given, sizes, torch::ones({64}));
  }
  given = small_options(work);
  const Trained usual = train(2, given, work);
  given.unit_options = {{"*.h.0", {}, false}};
  const Trained kept =
      train(2, given, work,
            {.before_step_end = {}, .after_step = [](Engine& engine, Gpt2Impl&, int) {
               expect_planned_bytes(engine);
             }});
  expect_same(kept, usual);
  EXPECT_LT(kept.num_gathers, usual.num_gathers);
}

TEST_F(UnitOptions, WhatCannotBeMeantIsRefused) {
  options.unit_options = {{"layer.*", DType::kFp32}};
  EXPECT_THAT(refused(), HasSubstr("'layer.*' matches no unit"));
  options.unit_options = {{"layers.*", {}, true}, {"layers.1", {}, false}};
  EXPECT_THAT(refused(),
              HasSubstr("'layers.*' and 'layers.1' say different things of layers.1"));
  options.unit_options = {{"layers.*", {}, true}, {"layers.1", {}, true}};
  EXPECT_EQ(refused(), "no error");
  options.unit_options = {{"(root)", {}, false}};
  EXPECT_THAT(refused(), HasSubstr("the root is gathered once"));
  options.auto_wrap.min_numel = 1000;
  options.unit_options = {{"layers.2", DType::kFp32}};
  EXPECT_THAT(refused(), HasSubstr("layers.2, which is merged into (root)"));
}

TEST_F(UnitOptions, APatternThatMatchesNothingIsToldWhatNamesLookLike) {
  options.unit_options = {{"layer.*", DType::kFp32}};
  HolderImpl<LayerImpl> of_one(0);
  EXPECT_THAT(error_of([&] { plan_groups(of_one, options); }),
              HasSubstr("names look like unit or (root)"));
  EXPECT_THAT(error_of([&] { plan_groups(*nn::Linear(2, 2), options); }),
              HasSubstr("no units but its (root)"));
}

// A layer that two others hold, whose number no path of its own tells.
struct OuterImpl : nn::Module {
  explicit OuterImpl(Unit<LayerImpl> shared) : inner(std::move(shared)) {
    w = register_parameter("w", values({8, 8}, -0.3, 0.4));
    register_module("inner", inner);
  }
  at::Tensor forward(const at::Tensor& x) { return inner(x.matmul(w)).matmul(w); }
  at::Tensor w;
  Unit<LayerImpl> inner;
};
struct SharingImpl : nn::Module {
  SharingImpl() {
    const Unit<LayerImpl> shared(7);
    for (int i = 0; i < 2; ++i) outer->push_back(Unit<OuterImpl>(shared));
    register_module("outer", outer);
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& layer : *outer) x = layer.value()(x);
    return x.to(at::kFloat).sum();
  }
  UnitList<OuterImpl> outer{std::make_shared<UnitListImpl<OuterImpl>>()};
};

TEST_F(UnitOptions, AUnitThatSeveralHoldReturnsTheirType) {
  options.unit_options = {{"outer.*", DType::kBf16}};
  on_ranks(1, [&](std::unique_ptr<Ranks> ranks) {
    auto model = std::make_shared<SharingImpl>();
    Engine engine(model, options, std::move(ranks));
    engine.backward(engine.forward(model, values({4, 8})), 1);
    EXPECT_FALSE(engine.step().skipped);
  });
  options.unit_options = {{"outer.0", DType::kBf16}};
  on_ranks(1, [&](std::unique_ptr<Ranks> ranks) {
    auto model = std::make_shared<SharingImpl>();
    EXPECT_THAT(error_of([&] { Engine engine(model, options, std::move(ranks)); }),
                HasSubstr("units of different types hold it"));
  });
}

}  // namespace
}  // namespace zero::testing::unit_options_test
