// What units do with tensors on a GPU: buffers, random numbers, inputs from elsewhere,
// and what is refused. The GPU is the stand-in; the host's numbers are expected, to the
// bit.
#include <torch/torch.h>

#include <filesystem>

#include "tests/engine/small_models.h"
#include "tests/standin/gpu_of_tests.h"
#include "zero/batch_norm.h"
#include "zero/engine.h"
#include "zero/save_load.h"

namespace zero::testing::units_standin_test {
namespace {

Options options_on(DeviceChoice device) {
  Options options;
  options.device = device;
  options.adam_threads = 1;
  options.schedule.lr = 0.1;
  return options;
}

// A small buffer that a forward changes, batch norm's, and a large one that it reads.
struct NormedImpl : torch::nn::Module {
  NormedImpl() {
    norm = register_module("norm", torch::nn::BatchNorm1d(3));
    table = register_buffer("table", values({20000, 3}));
    w = register_parameter("w", values({3}, 0.5, 2));
  }
  at::Tensor forward(const at::Tensor& x) {
    return torch::dropout(norm(x) * w + table.narrow(0, 7, x.size(0)), 0.3,
                          is_training());
  }
  torch::nn::BatchNorm1d norm{nullptr};
  at::Tensor table, w;
};
using Normed = HolderImpl<NormedImpl>;

struct Seen {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> values;
};

Seen train_normed(Engine& engine, std::shared_ptr<Normed>& model, int steps) {
  Seen seen;
  for (int step = 0; step < steps; ++step) {
    for (const double from : {-1.0, 0.5}) {
      const at::Tensor result = engine.forward(model, values({4, 3}, from, 2));
      engine.backward(result.pow(2).sum(), 4);
    }
    seen.losses.push_back(engine.step().loss);
  }
  for (const auto& name : {"unit.w", "unit.norm.weight"})
    seen.values[name] = engine.full_parameter(name);
  for (const BufferView& buffer : engine.buffers())
    seen.values[buffer.fqn] = engine.averaged_buffer(buffer.fqn);
  return seen;
}

Seen train_normed_on(DeviceChoice device, Recompute recompute) {
  Options options = options_on(device);
  options.recompute = recompute;
  options.stream_always = true;
  auto model = std::make_shared<Normed>();
  Engine engine(model, options);
  return train_normed(engine, model, 3);
}

void expect_same(const Seen& seen, const Seen& expected) {
  EXPECT_EQ(seen.losses, expected.losses);
  ASSERT_EQ(seen.values.size(), expected.values.size());
  for (const auto& [name, value] : expected.values) {
    EXPECT_TRUE(seen.values.at(name).is_cpu()) << name;
    EXPECT_TRUE(torch::equal(seen.values.at(name), value)) << name;
  }
}

TEST(UnitsOnAGpu, BuffersAndDropoutAreTheHosts) {
  for (const Recompute recompute : {Recompute::kUnit, Recompute::kNone}) {
    expect_same(train_normed_on(DeviceChoice::kCuda, recompute),
                train_normed_on(DeviceChoice::kCpu, recompute));
  }
}

struct SyncedImpl : torch::nn::Module {
  SyncedImpl() { norm = register_module("norm", BatchNorm1d(3)); }
  at::Tensor forward(const at::Tensor& x) { return norm(x).relu(); }
  BatchNorm1d norm{nullptr};
};

// Of the first of two ranks, which have 3 and 5 rows: gradients and buffers.
std::map<std::string, at::Tensor> norm_on(DeviceChoice device, const Options& given) {
  std::map<std::string, at::Tensor> seen;
  on_ranks(2, [&](std::unique_ptr<Ranks> ranks) {
    const int rank = ranks->rank();
    Options options = given;
    options.device = device;
    options.sync_batch_norm = true;
    auto model = std::make_shared<HolderImpl<SyncedImpl>>();
    Engine engine(model, options, std::move(ranks));
    const at::Tensor x = values({3 + 2 * rank, 3}, rank, 3).requires_grad_();
    for (int step = 0; step < 2; ++step) {
      const at::Tensor y = engine.forward(model, x);
      engine.backward(y.to(at::kFloat).pow(3).sum(), 1);
      EXPECT_EQ(y.device(), engine.device());
      engine.step();
    }
    std::map<std::string, at::Tensor> mine{{"x", x.grad()}};
    for (const auto& name : {"unit.norm.weight", "unit.norm.bias"})
      mine[name] = engine.full_parameter(name);
    for (const BufferView& buffer : engine.buffers())
      mine[buffer.fqn] = engine.averaged_buffer(buffer.fqn);
    if (rank == 0) seen = mine;
  });
  return seen;
}

TEST(UnitsOnAGpu, BatchNormsOverRanksAreTheHosts) {
  for (const Recompute recompute : {Recompute::kUnit, Recompute::kNone}) {
    for (const DType dtype : {DType::kFp32, DType::kBf16}) {
      Options options = options_on(DeviceChoice::kCpu);
      options.recompute = recompute;
      options.dtype = dtype;
      const auto expected = norm_on(DeviceChoice::kCpu, options);
      const auto seen = norm_on(DeviceChoice::kCuda, options);
      ASSERT_EQ(seen.size(), 6U);
      for (const auto& [name, value] : expected)
        EXPECT_TRUE(torch::equal(seen.at(name), value)) << name;
    }
  }
}

// Batch norm's own are so large here that they are compared in the first call alone.
struct WideImpl : torch::nn::Module {
  WideImpl() { norm = register_module("norm", torch::nn::BatchNorm1d(20000)); }
  at::Tensor forward(const at::Tensor& x) { return norm(x); }
  torch::nn::BatchNorm1d norm{nullptr};
};

TEST(UnitsOnAGpu, LargeBuffersCountAForwardOnce) {
  std::vector<at::Tensor> means;
  for (const DeviceChoice device : {DeviceChoice::kCpu, DeviceChoice::kCuda}) {
    auto model = std::make_shared<HolderImpl<WideImpl>>();
    Engine engine(model, options_on(device));
    for (int step = 0; step < 3; ++step) {
      engine.backward(engine.forward(model, values({2, 20000})).pow(2).sum(), 2);
      engine.step();
    }
    means.push_back(engine.averaged_buffer("unit.norm.running_mean"));
  }
  EXPECT_TRUE(torch::equal(means[0], means[1]));
}

// Their gradients, and what a checkpoint would hold of them.
TEST(UnitsOnAGpu, IgnoredParametersAreTheHosts) {
  std::vector<at::Tensor> seen;
  for (const DeviceChoice device : {DeviceChoice::kCpu, DeviceChoice::kCuda}) {
    Options options = options_on(device);
    options.ignored = {{"embed"}};
    auto model = std::make_shared<MlpImpl>();
    Engine engine(model, options);
    EXPECT_EQ(model->embed.device(), engine.device());
    expect_planned_bytes(engine);
    engine.backward(engine.forward(model, values({2, 3})), 4);
    engine.step();
    EXPECT_EQ(model->embed.grad().device(), engine.device());
    seen.push_back(model->embed.grad().cpu());
    seen.push_back(engine.averaged_buffer("embed"));
  }
  EXPECT_TRUE(torch::equal(seen[2], seen[0]));
  EXPECT_TRUE(torch::equal(seen[3], seen[1]));
}

TEST(UnitsOnAGpu, DropoutInAttentionIsTheHosts) {
  Work work;
  work.steps = 2;
  Gpt2Config config = small_gpt2();
  config.dropout = 0.2;
  Options options = small_options(work);
  options.stream_always = true;
  const Trained on_host = train(1, options, work, {}, config);
  options.device = DeviceChoice::kCuda;
  expect_same(train(1, options, work, {}, config), on_host);
}

TEST(UnitsOnAGpu, ACheckpointGoesToTheHostAndBack) {
  const std::string run = ::testing::TempDir() + "gpu_to_host";
  std::filesystem::remove_all(run);
  std::string saved;
  const auto resume_on = [&](DeviceChoice device) {
    auto model = std::make_shared<Normed>();
    Engine engine(model, options_on(device));
    load_checkpoint(engine, saved);
    return train_normed(engine, model, 2);
  };
  {
    auto model = std::make_shared<Normed>();
    Engine engine(model, options_on(DeviceChoice::kCuda));
    train_normed(engine, model, 2);
    SavedState state;
    state.step = 2;
    saved = save_checkpoint(engine, run, state);
  }
  expect_same(resume_on(DeviceChoice::kCuda), resume_on(DeviceChoice::kCpu));
}

TEST(UnitsOnAGpu, TensorsComeFromAnywhereAndGradientsGoBackThere) {
  auto model = std::make_shared<Normed>();
  Engine engine(model, options_on(DeviceChoice::kCuda));
  const c10::Device gpu = engine.device();
  EXPECT_EQ(gpu, c10::Device(c10::kCUDA, 0));
  EXPECT_TRUE(model->unit->table.is_cuda());
  at::Tensor on_host = values({4, 3}).requires_grad_();
  at::Tensor on_gpu = values({4, 3}).to(gpu).requires_grad_();
  std::vector<at::Tensor> grads;
  for (at::Tensor& input : {std::ref(on_host), std::ref(on_gpu)}) {
    model->unit->norm->reset_running_stats();
    model->eval();
    const at::Tensor result = engine.forward(model, input);
    EXPECT_EQ(result.device(), gpu);
    engine.backward(result.pow(2).sum().cpu(), 4);  // a loss on the host is as good
    EXPECT_EQ(input.grad().device(), input.device());
    grads.push_back(input.grad().cpu());
  }
  EXPECT_TRUE(torch::equal(grads[0], grads[1]));
  EXPECT_GT(grads[0].abs().max().item<double>(), 0);
}

TEST(UnitsOnAGpu, TheCallersGeneratorsStayAsTheyAre) {
  auto model = std::make_shared<Normed>();
  Engine engine(model, options_on(DeviceChoice::kCuda));
  const auto state = [&] {
    return at::globalContext().defaultGenerator(engine.device()).get_state();
  };
  const at::Tensor before = state();
  const at::Tensor result = engine.forward(model, values({4, 3}));
  EXPECT_TRUE(torch::equal(state(), before));
  engine.backward(result.sum(), 4);
  EXPECT_TRUE(torch::equal(state(), before));
}

// The loss is read in step(); until then it may be used for something else.
int train_disturbed() {
  Options options = options_on(DeviceChoice::kCuda);
  options.recompute = Recompute::kUnit;
  auto model = std::make_shared<HolderImpl<DisturbedImpl<NormedImpl>>>();
  Engine engine(model, options);
  const at::Tensor y = engine.forward(model, values({4, 3}));
  const std::string error = error_of([&] { engine.backward(y.sum(), 1); });
  std::fputs(error.c_str(), stderr);
  return 7;
}

TEST(UnitsOnAGpu, AnotherThreadThatDrawsOnTheHostIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // where ranks have never been threads
  EXPECT_EXIT(std::exit(train_disturbed()), ::testing::ExitedWithCode(7),
              "another thread draws(.|\n)*unit");
}

TEST(UnitsOnAGpu, ALossMayBeChangedAfterItsBackward) {
  auto model = std::make_shared<Normed>();
  Engine engine(model, options_on(DeviceChoice::kCuda));
  const at::Tensor loss = engine.forward(model, values({4, 3})).pow(2).sum();
  const double as_it_was = loss.item<double>();
  engine.backward(loss, 1);
  {
    const torch::NoGradGuard no_grad;
    loss.zero_();
  }
  EXPECT_EQ(engine.step().loss, as_it_was);
}

TEST(UnitsOnAGpu, LossesMayBeOfAnyShapeAndAnywhere) {
  auto model = std::make_shared<Normed>();
  Engine engine(model, options_on(DeviceChoice::kCuda));
  double sum = 0;
  for (int pass = 0; pass < 3; ++pass) {
    at::Tensor loss = engine.forward(model, values({4, 3})).pow(2).sum();
    sum += loss.item<double>();
    if (pass == 1) loss = loss.cpu();
    if (pass == 2) loss = loss.view({1, 1});
    engine.backward(loss, 1);
  }
  EXPECT_DOUBLE_EQ(engine.step().loss, sum / 3);
}

TEST(UnitsOnAGpu, AReleasedParameterSaysItsName) {
  auto model = std::make_shared<Normed>();
  Engine engine(model, options_on(DeviceChoice::kCuda));
  try {
    model->unit->w.sum();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("unit.w is released"));
  }
}

struct LeavesImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x) { return (x * w).cpu(); }
};

TEST(UnitsOnAGpu, AResultThatLeavesTheGpuIsRefused) {
  auto model = std::make_shared<HolderImpl<LeavesImpl>>();
  Engine engine(model, options_on(DeviceChoice::kCuda));
  const std::string error = error_of([&] { engine.forward(model, values({2, 3})); });
  EXPECT_THAT(error, ::testing::HasSubstr("on cpu"));
  EXPECT_THAT(error, ::testing::HasSubstr("unit"));
}

// By somebody else, between a forward and its backward.
TEST(UnitsOnAGpu, ABufferThatChangedMeanwhileIsNamed) {
  auto model = std::make_shared<Normed>();
  Engine engine(model, options_on(DeviceChoice::kCuda));
  const at::Tensor loss = engine.forward(model, values({4, 3})).sum();
  model->unit->table.add_(1);
  const std::string error = error_of([&] { engine.backward(loss, 1); });
  EXPECT_THAT(error, ::testing::HasSubstr("table"));
}

}  // namespace
}  // namespace zero::testing::units_standin_test
