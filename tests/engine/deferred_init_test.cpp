#include "engine/init/deferred_init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/errors.h"
#include "tests/engine/training.h"

namespace zero::testing {
namespace {

namespace nn = torch::nn;

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

Options quiet_options() {
  Options options;
  options.device = DeviceChoice::kCpu;
  options.adam_threads = 1;
  return options;
}

template <class Model>
std::shared_ptr<Model> deferred() {
  const DeferredInit guard;
  return std::make_shared<Model>();
}

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

struct ReadingImpl : nn::Module {
  ReadingImpl() { w = register_parameter("w", torch::randn({3}) * 0.02); }
  at::Tensor w;
};

TEST(DeferredInit, ReadingADeferredTensorIsNamed) {
  try {
    deferred<ReadingImpl>();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("aten::mul"));
  }
}

}  // namespace
}  // namespace zero::testing
