#include "zero/deferred_init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/engine/first_values.h"
#include "tests/engine/small_models.h"
#include "tests/engine/training.h"
#include "zero/errors.h"

namespace zero::testing::deferred_init_test {
namespace {

namespace nn = torch::nn;
using ::testing::AllOf;
using ::testing::HasSubstr;

// torch's own layers, and a buffer that is computed.
struct LayersImpl : nn::Module {
  LayersImpl() {
    linear = register_module("linear", nn::Linear(12, 6));
    conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(3, 4, 2)));
    embedding = register_module(
        "embedding", nn::Embedding(nn::EmbeddingOptions(10, 5).padding_idx(3)));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({7})));
    batch_norm = register_module("batch_norm", nn::BatchNorm1d(6));
    table = register_buffer("table", torch::arange(4).to(at::kFloat).cos());
  }
  at::Tensor forward(const at::Tensor& x) { return batch_norm(linear(x)).sum(); }
  nn::Linear linear{nullptr};
  nn::Conv2d conv{nullptr};
  nn::Embedding embedding{nullptr};
  nn::LayerNorm norm{nullptr};
  nn::BatchNorm1d batch_norm{nullptr};
  at::Tensor table;
};

TEST(DeferredInit, ParametersHaveShapesAndNoMemory) {
  const auto model = deferred<LayersImpl>();
  for (const auto& item : model->named_parameters()) {
    EXPECT_TRUE(is_deferred(item.value())) << item.key();
    EXPECT_TRUE(item.value().requires_grad()) << item.key();
    EXPECT_THROW(item.value().storage().data(), c10::Error) << item.key();
  }
  EXPECT_EQ(model->conv->weight.sizes(), (std::vector<int64_t>{4, 3, 2, 2}));
  EXPECT_FALSE(is_deferred(torch::zeros({2})));  // the guard is gone
}

TEST(DeferredInit, BuffersGetTheValuesTheirConstructorGaveThem) {
  auto model = deferred<LayersImpl>();
  Engine engine(model, quiet_options(), nullptr);
  EXPECT_TRUE(torch::equal(model->batch_norm->running_var, torch::ones({6})));
  EXPECT_TRUE(torch::equal(model->batch_norm->running_mean, torch::zeros({6})));
  EXPECT_EQ(model->batch_norm->num_batches_tracked.item<int64_t>(), 0);
  EXPECT_TRUE(torch::equal(model->table, torch::arange(4).to(at::kFloat).cos()));
}

TEST(DeferredInit, TorchLayersStartAsTorchStartsThem) {
  auto model = deferred<LayersImpl>();
  Engine engine(model, quiet_options(), nullptr);
  const auto expect_uniform = [&](const std::string& fqn, double bound) {
    const at::Tensor values = engine.full_parameter(fqn);
    EXPECT_LE(values.abs().max().item<double>(), bound) << fqn;
    EXPECT_GT(values.abs().max().item<double>(), bound * 0.5) << fqn;
  };
  expect_uniform("linear.weight", 1 / std::sqrt(12.0));
  expect_uniform("linear.bias", 1 / std::sqrt(12.0));
  expect_uniform("conv.weight", 1 / std::sqrt(12.0));
  EXPECT_TRUE(torch::equal(engine.full_parameter("norm.weight"), torch::ones({7})));
  EXPECT_TRUE(torch::equal(engine.full_parameter("norm.bias"), torch::zeros({7})));
  const at::Tensor embedding = engine.full_parameter("embedding.weight");
  EXPECT_TRUE(torch::equal(embedding[3], torch::zeros({5})));
  EXPECT_NEAR(embedding.std().item<double>(), 1, 0.4);
}

TEST(DeferredInit, AnyNumberOfRanksStartsWithTheSameBits) {
  Work work;
  work.steps = 1;
  Options options = small_options(work);
  options.schedule.lr = 0;
  options.optimizer.weight_decay = 0;
  options.schedule.warmup_steps = 0;
  const Trained one = train(1, options, work);
  for (const int ranks : {2, 3, 4}) {
    const Trained several = train(ranks, options, work);
    EXPECT_EQ(several.params, one.params) << ranks;
  }
  EXPECT_EQ(train_unsharded(options, work, /*exact=*/true).params, one.params);
}

struct OddImpl : nn::Module {
  OddImpl() {
    first = register_parameter("first", torch::empty({3}));
    second = register_parameter("second", torch::empty({2, 2}));
  }
  at::Tensor first, second;
};

TEST(DeferredInit, ParametersThatNothingInitialisesAreAllListed) {
  Options options = quiet_options();
  try {
    Engine engine(deferred<OddImpl>(), options, nullptr);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(::testing::HasSubstr("first"), ::testing::HasSubstr("second")));
  }
  options.init = {{"f*", constant(2)}, {"*", zeros()}};
  Engine engine(deferred<OddImpl>(), options, nullptr);
  EXPECT_TRUE(torch::equal(engine.full_parameter("first"), torch::full({3}, 2.0)));
}

// --- what constructors compute, the same as without the guard

using Build = std::function<void(nn::Module&)>;

// A module whose constructor does what a test says.
struct BuiltImpl : nn::Module {
  explicit BuiltImpl(const Build& build) { build(*this); }
};

std::map<std::string, at::Tensor> first_values(const Build& build, int ranks = 1,
                                               uint64_t seed = 1) {
  Options options = quiet_options();
  options.seed = seed;
  const auto make = [&] {
    const DeferredInit guard;
    return std::make_shared<BuiltImpl>(build);
  };
  return full_values(ranks, options, make, [](Engine&) {});
}

struct Constructor {
  std::string name;
  Build build;
};

at::Tensor param(nn::Module& m, const std::string& name, const at::Tensor& value) {
  return m.register_parameter(name, value);
}

std::vector<Constructor> exact_constructors() {
  const torch::NoGradGuard no_grad;
  return {
      {"positions",
       [](nn::Module& m) { m.register_buffer("p", torch::arange(7).unsqueeze(0)); }},
      {"a table that is computed",
       [](nn::Module& m) {
         const at::Tensor inverse = torch::pow(1e4, torch::arange(0, 8, 2) / -8.0);
         const at::Tensor angles = torch::outer(torch::arange(5), inverse);
         m.register_buffer("cos", angles.cos());
         m.register_buffer("both", torch::cat({torch::zeros({5, 4}), angles.sin()}));
       }},
      {"masks",
       [](nn::Module& m) {
         const at::Tensor seen = torch::tril(torch::ones({4, 4}, at::kBool));
         m.register_buffer("seen", seen);
         m.register_buffer(
             "mask", torch::zeros({4, 4}).masked_fill(seen.logical_not(), -INFINITY));
       }},
      {"constants from lists",
       [](nn::Module& m) {
         m.register_buffer("list", torch::tensor({1.5, 2.5, -1.0}));
         m.register_buffer("vector", torch::tensor(std::vector<double>{4, 5, 6}));
         m.register_buffer("ids", torch::tensor(std::vector<int64_t>{3, -1, 2}));
         param(m, "scaled", torch::tensor(std::vector<float>{1, 2}) * 3);
       }},
      {"memory of the caller's",
       [](nn::Module& m) {
         std::vector<float> values{1, 2, 3, 4};
         param(m, "w", torch::from_blob(values.data(), {2, 2}).clone());
       }},
      {"memory of the caller's that is gone",
       [](nn::Module& m) {
         std::vector<float> values{1, 2, 3, 4};
         const at::Tensor w = param(m, "w", torch::empty({4}));
         w.copy_(torch::from_blob(values.data(), {4}));
         std::ranges::fill(values, -1);
       }},
      {"nothing at all",
       [](nn::Module& m) {
         m.register_buffer("cache", torch::empty({0}));
         param(m, "none", torch::empty({0, 4}));
         m.register_buffer("large", torch::tensor(std::vector<float>(100000, 2)));
       }},
      {"complex numbers",
       [](nn::Module& m) {
         param(m, "c", torch::view_as_real(torch::ones({4}, at::kComplexFloat)));
       }},
      {"results that are given",
       [](nn::Module& m) {
         at::Tensor w = param(m, "w", torch::ones({3}));
         torch::full_out(w, {3}, 0.5);
       }},
      {"operations that have no shapes without values",
       [](nn::Module& m) {
         const at::Tensor x = torch::ones({6}).cumsum(0);
         param(m, "w", torch::where(x > 2, x, torch::zeros({6})));
         param(m, "scaled", x / x.std());
         m.register_buffer("found", (x > 4).nonzero());
       }},
      {"parameters of other parameters' shapes",
       [](nn::Module& m) {
         const at::Tensor w = param(m, "w", torch::full({3, 4}, 0.5));
         param(m, "like", torch::zeros_like(w));
         param(m, "gain", torch::ones({w.size(0)}));
         m.register_buffer("copy", torch::empty({3, 4}).copy_(w));
         param(m, "twice", w * 2 + 1);
       }},
      {"values of another tensor's shape or type",
       [](nn::Module& m) {
         const at::Tensor w = param(m, "w", torch::full({3, 4}, 0.5));
         m.register_buffer("ones_like", torch::ones_like(w));
         m.register_buffer("full_like", torch::full_like(w, 3));
         m.register_buffer("new_zeros", w.new_zeros({2}));
         m.register_buffer("new_ones", w.new_ones({2}));
         m.register_buffer("new_full", w.new_full({2}, 3));
       }},
      {"in-place operations on views",
       [](nn::Module& m) {
         const at::Tensor w = param(m, "w", torch::zeros({4, 6}));
         w.slice(0, 1, 3).fill_(2);
         w.t()[5].add_(1);
         w.index_put_({torch::tensor({0})}, torch::tensor(7.0f));
         w.view({-1}).narrow(0, 20, 3).mul_(3);
       }},
      {"values that change after they were used",
       [](nn::Module& m) {
         const at::Tensor w = param(m, "w", torch::ones({3}));
         const at::Tensor before = w.clone();
         w.mul_(5).add_(before);
         param(m, "before", before + w);
         w.zero_();
       }},
      {"torch::nn::init",
       [](nn::Module& m) {
         nn::init::eye_(param(m, "eye", torch::empty({3, 4})));
         nn::init::dirac_(param(m, "dirac", torch::empty({4, 4, 3})));
         nn::init::constant_(param(m, "three", torch::empty({5})), 3);
         nn::init::ones_(param(m, "ones", torch::empty({2})));
       }},
      {"a value that decides a shape",
       [](nn::Module& m) {
         const at::Tensor mask = torch::ones({3, 3}).triu();
         param(m, "w", torch::zeros({mask.sum().item<int64_t>()}));
       }},
      {"another type",
       [](nn::Module& m) {
         m.register_module("norm", nn::LayerNorm(nn::LayerNormOptions({4})));
         m.register_buffer("half", torch::full({3}, 0.1).to(at::kHalf));
         m.to(at::kBFloat16);
       }},
      {"a layer norm that is filled with another value",
       [](nn::Module& m) {
         auto norm = m.register_module("norm", nn::LayerNorm(nn::LayerNormOptions({4})));
         norm->weight.fill_(0.5);
       }},
  };
}

TEST(DeferredInit, ConstructorsThatDrawNothingGiveTheirOwnBits) {
  for (const Constructor& constructor : exact_constructors()) {
    SCOPED_TRACE(constructor.name);
    const torch::NoGradGuard no_grad;
    const auto plain = std::make_shared<BuiltImpl>(constructor.build);
    for (const int ranks : {1, 3}) {
      const auto ours = first_values(constructor.build, ranks);
      const auto expect_equal = [&](const std::string& name, const at::Tensor& value) {
        ASSERT_TRUE(ours.contains(name)) << name;
        EXPECT_TRUE(torch::equal(ours.at(name).to(value.scalar_type()), value))
            << name << " is\n"
            << ours.at(name) << "\ninstead of\n"
            << value;
      };
      for (const auto& item : plain->named_parameters())
        expect_equal(item.key(), item.value());
      for (const auto& item : plain->named_buffers())
        expect_equal(item.key(), item.value());
    }
  }
}

// --- what constructors draw

struct OwnScaleImpl : nn::LinearImpl {
  OwnScaleImpl() : nn::LinearImpl(32, 16) {
    const torch::NoGradGuard no_grad;
    nn::init::normal_(weight, 0, 0.02);
    nn::init::constant_(bias, 3);
    scale = register_parameter("scale", torch::ones({16}));
  }
  at::Tensor scale;
};

Build drawing_constructor() {
  return [](nn::Module& m) {
    const torch::NoGradGuard no_grad;
    m.register_module("own", std::make_shared<OwnScaleImpl>());
    m.register_module("lstm", nn::LSTM(nn::LSTMOptions(4, 8)));
    m.register_module("attention",
                      nn::MultiheadAttention(nn::MultiheadAttentionOptions(8, 2)));
    nn::init::orthogonal_(param(m, "orthogonal", torch::empty({6, 9})), 2);
    nn::init::kaiming_normal_(param(m, "kaiming", torch::empty({64, 32})));
    nn::init::sparse_(param(m, "sparse", torch::empty({10, 4})), 0.5);
    const at::Tensor scaled = param(m, "scaled", torch::randn({40, 50}) * 0.02);
    param(m, "copy", torch::empty({40, 50}).copy_(scaled));
    param(m, "clone", scaled.clone());
    const at::Tensor shared = torch::rand({30});
    param(m, "like", torch::rand_like(torch::empty({2000})));
    param(m, "first", shared + 1);
    param(m, "second", shared + 2);
    const at::Tensor twice = param(m, "twice", torch::empty({500}).uniform_());
    m.register_buffer("drawn_before", twice.clone());
    twice.uniform_();
    m.register_buffer("order", torch::randperm(20));
    param(m, "masked",
          torch::where(torch::rand({50}) < 0.5, torch::randn({50}), torch::zeros({50})));
    param(m, "difference", torch::randn({50}) - torch::randn({50}));
    m.register_buffer("drawn", torch::multinomial(torch::ones({10}), 3));
    auto layer = m.register_module("layer", nn::Linear(8, 8));
    m.register_module("layer_again",
                      std::dynamic_pointer_cast<nn::LinearImpl>(layer->clone()));
    auto half = m.register_module("half", nn::Linear(16, 16));
    half->to(at::kBFloat16);
  };
}

TEST(DeferredInit, ConstructorsThatDrawGiveTheSameBitsOnAnyRanks) {
  const auto one = first_values(drawing_constructor());
  for (const int ranks : {2, 3, 4}) {
    const auto several = first_values(drawing_constructor(), ranks);
    for (const auto& [name, value] : one)
      EXPECT_TRUE(torch::equal(several.at(name), value)) << name << " on " << ranks;
  }
  const auto other = first_values(drawing_constructor(), 1, /*seed=*/2);
  for (const char* name : {"own.weight", "orthogonal", "scaled", "order"})
    EXPECT_FALSE(torch::equal(other.at(name), one.at(name))) << name;
}

TEST(DeferredInit, ConstructorsThatDrawGiveTheirOwnDistributions) {
  const auto values = first_values(drawing_constructor());
  const auto std_of = [&](const char* name) {
    return values.at(name).std().item<double>();
  };
  EXPECT_NEAR(std_of("own.weight"), 0.02, 0.002);
  EXPECT_TRUE(torch::equal(values.at("own.bias"), torch::full({16}, 3.0f)));
  EXPECT_TRUE(torch::equal(values.at("own.scale"), torch::ones({16})));
  EXPECT_NEAR(std_of("scaled"), 0.02, 0.002);
  EXPECT_NEAR(std_of("like"), 1 / std::sqrt(12.0), 0.02);
  EXPECT_GE(values.at("like").min().item<double>(), 0);
  EXPECT_NEAR(std_of("kaiming"), std::sqrt(2.0 / 32), 0.02);
  EXPECT_NEAR(std_of("lstm.weight_ih_l0"), 1 / std::sqrt(3 * 8.0), 0.05);
  EXPECT_NEAR(std_of("attention.in_proj_weight"), std::sqrt(2.0 / (8 + 24)), 0.05);
  const at::Tensor q = values.at("orthogonal");
  EXPECT_TRUE(torch::allclose(q.mm(q.t()), 4 * torch::eye(6), 1e-4, 1e-4));
  EXPECT_EQ((values.at("sparse") == 0).sum(0).min().item<int64_t>(), 5);
  EXPECT_TRUE(torch::equal(std::get<0>(values.at("order").sort()), torch::arange(20)));
}

TEST(DeferredInit, WhatIsCopiedIsEqual) {
  const auto values = first_values(drawing_constructor());
  EXPECT_TRUE(torch::equal(values.at("copy"), values.at("scaled")));
  EXPECT_TRUE(torch::equal(values.at("clone"), values.at("scaled")));
  EXPECT_TRUE(torch::equal(values.at("layer_again.weight"), values.at("layer.weight")));
  EXPECT_TRUE(torch::allclose(values.at("second") - values.at("first"), torch::ones({30}),
                              1e-6, 1e-6));
  EXPECT_FALSE(torch::equal(values.at("drawn_before"), values.at("twice")));
  EXPECT_NEAR(values.at("difference").std().item<double>(), std::sqrt(2), 0.5);
  const at::Tensor half = values.at("half.weight");
  EXPECT_TRUE(torch::equal(half.to(at::kBFloat16).to(at::kFloat), half));
}

// --- what cannot be

// An operator of the user's that draws, of which nobody knows what it returns.
std::tuple<at::Tensor, int64_t> draw_some(const at::Tensor& x) {
  return {torch::randn(x.sizes()), 3};
}
TORCH_LIBRARY(zero_deferred_test, library) {
  library.def("draw_some(Tensor x) -> (Tensor, int)", {at::Tag::nondeterministic_seeded});
}
TORCH_LIBRARY_IMPL(zero_deferred_test, CPU, library) {
  library.impl("draw_some", &draw_some);
}

TEST(DeferredInit, DrawsOfUnknownShapeAreRefused) {
  const auto op = c10::Dispatcher::singleton()
                      .findSchemaOrThrow("zero_deferred_test::draw_some", "")
                      .typed<std::tuple<at::Tensor, int64_t>(const at::Tensor&)>();
  EXPECT_THAT(error_of([&] {
                first_values([&](nn::Module& m) {
                  param(m, "w", std::get<0>(op.call(torch::empty({4}))));
                });
              }),
              AllOf(HasSubstr("draw_some"), HasSubstr("shape is random")));
}

TEST(DeferredInit, WhatCannotBeRememberedIsNamed) {
  const auto refused = [](const Build& build) {
    return error_of([&] { first_values(build); });
  };
  EXPECT_THAT(refused([](nn::Module& m) {
                const at::Tensor w = param(m, "w", torch::randn({4}));
                param(m, "v", torch::zeros({w.argmax().item<int64_t>() + 1}));
              }),
              HasSubstr("aten::_local_scalar_dense"));
  EXPECT_THAT(refused([](nn::Module& m) {
                m.register_buffer("b", torch::zeros({4})).resize_({8});
              }),
              HasSubstr("aten::resize_"));
  EXPECT_THAT(refused([](nn::Module& m) {
                param(m, "w", torch::empty({4}))
                    .normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(3));
              }),
              HasSubstr("generator of its own"));
  EXPECT_THAT(refused([](nn::Module& m) {
                const at::Tensor w = torch::empty({4});
                w.slice(0, 0, 2).zero_();
                param(m, "w", w);
              }),
              AllOf(HasSubstr("leaves 2 of 4 elements without a value"), HasSubstr("w")));
  EXPECT_THAT(refused([](nn::Module& m) {
                const at::Tensor source = torch::arange(4).to(at::kFloat);
                param(m, "w", torch::empty({4}).copy_(source));
                source.zero_();
              }),
              AllOf(HasSubstr("aten::copy_"), HasSubstr("clone()")));
  EXPECT_THAT(refused([](nn::Module& m) {
                const at::Tensor source = torch::arange(4).to(at::kFloat);
                const at::Tensor w = param(m, "w", torch::empty({4}).copy_(source));
                source.add_(w);
              }),
              AllOf(HasSubstr("aten::copy_"), HasSubstr("clone()")));
}

TEST(DeferredInit, WhatPlainLibTorchRefusesIsRefusedWhereItStands) {
  const DeferredInit guard;
  const at::Tensor w = torch::zeros({4}), large = torch::empty({1000, 1000});
  EXPECT_THROW(w.copy_(torch::ones({3})), c10::Error);
  try {
    large.data_ptr<float>()[0] = 1;
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("made under zero::DeferredInit has no values"));
  }
}

TEST(DeferredInit, AModelMayBeGivenMemoryWithoutAnEngine) {
  const auto model = deferred<LayersImpl>();
  torch::manual_seed(3);
  for (const at::Tensor& p : model->parameters()) materialize(p);
  for (const at::Tensor& b : model->buffers()) materialize(b);
  torch::manual_seed(3);
  const LayersImpl plain;
  const auto expected = plain.named_parameters();
  for (const auto& item : model->named_parameters())
    EXPECT_TRUE(torch::equal(item.value(), expected[item.key()])) << item.key();
}

}  // namespace
}  // namespace zero::testing::deferred_init_test
