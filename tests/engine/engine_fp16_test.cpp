// Units that compute in fp16: the plain module's bits, and the loss scale around it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/manifest.h"
#include "tests/engine/training.h"
#include "zero/errors.h"
#include "zero/save_load.h"

namespace zero::testing::engine_fp16_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Its gradient is what one likes, as often as the loss counts.
struct HookedImpl : torch::nn::Module {
  HookedImpl() { w = register_parameter("w", torch::linspace(-1, 1, 130)); }
  at::Tensor forward(const at::Tensor& gradient, const at::Tensor& x) {
    at::Tensor h = w * 1;
    if (gradient.defined())
      h.register_hook(
          [gradient](const at::Tensor& g) { return gradient.to(g.dtype()) * g; });
    return h.to(at::kFloat).sum() + (x.to(at::kFloat) * 3).sum();
  }
  at::Tensor w;
};

class EngineFp16 : public ::testing::Test {
 protected:
  EngineFp16() {
    work.micro_batches = 4;
    work.seq_len = 16;
    options = small_options(work);
    options.dtype = DType::kFp16;
    options.loss_scale = {.init = 1 << 10, .window = 3};
  }

  // What one step of an engine with a HookedImpl reports and makes of w, on rank 0. The
  // gradients of the ranks are given.
  using Told = std::pair<StepReport, std::vector<float>>;
  std::vector<Told> hooked_steps(int ranks,
                                 const std::vector<std::vector<double>>& first_values) {
    std::vector<Told> told;
    on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      const int rank = comm->rank();
      auto model = std::make_shared<HookedImpl>();
      Engine engine(model, options, std::move(comm));
      for (const std::vector<double>& of_ranks : first_values) {
        at::Tensor gradient = torch::ones({130});
        gradient[0] = of_ranks[rank];
        engine.backward(engine.forward(model, gradient, torch::ones({2})), 1);
        const StepReport report = engine.step();
        Trained run;
        collect_shards(engine, run);
        const at::Tensor w = engine.full_parameter("w");
        if (rank == 0)
          told.push_back(
              {report, {w.data_ptr<float>(), w.data_ptr<float>() + w.numel()}});
        // The decision is everybody's.
        EXPECT_EQ(engine.control().largest(report.skipped, "skipped"),
                  static_cast<int64_t>(report.skipped));
      }
    });
    return told;
  }
  static std::vector<int64_t> scales_of(const std::vector<Told>& told) {
    std::vector<int64_t> scales;
    for (const auto& [report, w] : told) scales.push_back(report.loss_scale);
    return scales;
  }

  Work work;
  Options options;
};

TEST_F(EngineFp16, OneRankEqualsUnshardedBitwise) {
  options.loss_scale.window = 100;
  work.steps = 6;
  const Trained unsharded = train_unsharded(options, work, /*exact=*/true);
  expect_same(train(1, options, work), unsharded);
  options.stream_always = true;
  expect_same(train(1, options, work), unsharded);
  options.deterministic = true;
  expect_same(train(1, options, work), train_unsharded(options, work, /*exact=*/true));
}

TEST_F(EngineFp16, DeterministicRanksAreBitwiseEqualWhileTheScaleMoves) {
  options.deterministic = true;
  options.loss_scale = {.init = 1 << 24, .window = 2};
  work.masks_targets = true;
  work.steps = 16;
  const Trained one = train(1, options, work);
  EXPECT_FALSE(std::isfinite(one.norms.front()));
  EXPECT_TRUE(std::isfinite(one.norms[14]) || std::isfinite(one.norms[15]));
  for (const int ranks : {2, 4}) {
    const Trained other = train(ranks, options, work);
    EXPECT_EQ(other.losses, one.losses);
    EXPECT_EQ(other.params, one.params);
    EXPECT_EQ(other.state, one.state);
  }
}

TEST_F(EngineFp16, SettingsOfSpeedChangeNoBit) {
  const Trained reference = train(2, options, work);
  const auto expect_unchanged = [&](auto change) {
    Options changed = options;
    change(changed);
    expect_same(train(2, changed, work), reference);
  };
  expect_unchanged([](Options& o) { o.recompute = Recompute::kNone; });
  expect_unchanged([](Options& o) { o.reshard_after_forward = false; });
  expect_unchanged([](Options& o) { o.overlap_updates = false; });
  expect_unchanged([](Options& o) { o.adam_threads = 2; });
  expect_unchanged([](Options& o) { o.chaos_seed = 7; });
}

TEST_F(EngineFp16, FollowsFp32) {
  work.steps = 6;
  const Trained fp16 = train(2, options, work);
  options.dtype = DType::kFp32;
  options.loss_scale = {};
  const Trained fp32 = train(2, options, work);
  for (size_t i = 0; i < fp32.losses.size(); ++i)
    EXPECT_NEAR(fp16.losses[i], fp32.losses[i], 0.005 * fp32.losses[i]);
  EXPECT_NE(fp16.losses, fp32.losses);
}

TEST_F(EngineFp16, ANumberThatIsNotFiniteOnOneRankSkipsTheStepOfAll) {
  for (const double bad : {INFINITY, -INFINITY, NAN}) {
    const auto told = hooked_steps(2, {{1, 1}, {1, bad}, {bad, 1}, {1, 1}});
    EXPECT_THAT(scales_of(told), ElementsAre(1024, 1024, 512, 256));
    for (const int skipped : {1, 2}) {
      EXPECT_TRUE(told[skipped].first.skipped);
      EXPECT_EQ(told[skipped].first.first_bad, "w");
      EXPECT_EQ(told[skipped].first.step, 1);
      EXPECT_EQ(told[skipped].second, told[0].second);
    }
    EXPECT_FALSE(told[3].first.skipped);
    EXPECT_EQ(told[3].first.step, 2);
    // As if the overflows had never been: moments and their number stayed, too.
    EXPECT_EQ(told[3].second, hooked_steps(2, {{1, 1}, {1, 1}})[1].second);
  }
}

TEST_F(EngineFp16, ASkippedStepLeavesStatesAndCopiesAsTheyWere) {
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<HookedImpl>();
    Engine engine(model, options, std::move(comm));
    const at::Tensor x = torch::ones({2});
    const auto state = [&] {
      std::vector<std::vector<float>> all;
      for (const ShardView& view : engine.shards()) {
        all.push_back(view.master.read_all());
        for (const StateView& each : view.state) all.push_back(each.values.read_all());
      }
      const torch::NoGradGuard no_grad;
      all.push_back({engine.forward(model, at::Tensor(), x).item<float>()});
      return all;
    };
    engine.backward(engine.forward(model, torch::ones({130}), x), 1);
    engine.step();
    const auto before = state();
    engine.backward(engine.forward(model, torch::full({130}, INFINITY), x), 1);
    EXPECT_TRUE(engine.step().skipped);
    EXPECT_EQ(state(), before);
    EXPECT_EQ(engine.num_steps(), 1);
    EXPECT_EQ(engine.loss_scale(), (LossScaleState{512, 0}));
  });
}

TEST_F(EngineFp16, TheScaleDoublesAfterAWindowAndStopsAtTheSmallest) {
  options.loss_scale = {.init = 4, .window = 2, .min = 2};
  EXPECT_THAT(scales_of(hooked_steps(1, {{1}, {1}, {1}, {NAN}, {NAN}, {NAN}, {1}})),
              ElementsAre(4, 4, 8, 8, 4, 2, 2));
}

// What fp16 holds at either scale is the same at both.
TEST_F(EngineFp16, NothingButTheRangeDependsOnTheScale) {
  struct Seen {
    std::vector<float> w, gradient, of_x;
    double norm = 0, loss = 0;
    bool operator==(const Seen&) const = default;
  };
  const auto seen = [&](int64_t scale) {
    Seen result;
    options.loss_scale.init = scale;
    options.nominal_targets = 3;
    auto model = std::make_shared<HookedImpl>();
    Engine engine(model, options, nullptr);
    const at::Tensor x = torch::ones({2}).requires_grad_();
    engine.backward(engine.forward(model, at::Tensor(), x), 5);
    const auto values = [](const at::Tensor& t) {
      return std::vector<float>(t.data_ptr<float>(), t.data_ptr<float>() + t.numel());
    };
    result.of_x = values(x.grad());
    result.gradient = values(engine.full_gradient("w"));
    const StepReport report = engine.step();
    EXPECT_EQ(report.loss_scale, scale);
    result.norm = report.grad_norm;
    result.loss = report.loss;
    result.w = values(engine.full_parameter("w"));
    return result;
  };
  const Seen small = seen(1);
  EXPECT_NEAR(small.of_x[0], 3, 1e-3);
  EXPECT_NEAR(small.gradient[0], 0.2, 1e-4);
  for (const int64_t scale : {2, 64, 1 << 14}) EXPECT_TRUE(seen(scale) == small) << scale;
}

struct TinyImpl : torch::nn::Module {
  TinyImpl() { w = register_parameter("w", torch::ones({64})); }
  at::Tensor forward(const at::Tensor& x) {
    return (w * x).to(at::kFloat).sum() * 0x1p-26;
  }
  at::Tensor w;
};

TEST_F(EngineFp16, TheScaleSavesGradientsThatFp16Loses) {
  const auto norm = [&](int64_t scale) {
    options.loss_scale.init = scale;
    options.nominal_targets = 1;
    auto model = std::make_shared<TinyImpl>();
    Engine engine(model, options, nullptr);
    engine.backward(engine.forward(model, torch::ones({64})), 1);
    return engine.step().grad_norm;
  };
  EXPECT_EQ(norm(1), 0);
  EXPECT_EQ(norm(1 << 16), 8 * 0x1p-26);
}

TEST_F(EngineFp16, ResumesTheScaleOnAnyNumberOfRanks) {
  options.deterministic = true;
  options.loss_scale = {.init = 1 << 24, .window = 5};
  const std::string folder =
      (fs::temp_directory_path() / ("zero_fp16_" + std::to_string(getpid()))).string();
  fs::remove_all(folder);
  std::string path;
  LossScaleState saved;
  const auto run = [&](int ranks, int from, int to, const std::string& load, bool saves) {
    Trained result;
    Options mine = options;
    mine.micro_batches_per_rank = work.micro_batches / ranks;
    on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      const int rank = comm->rank();
      auto model = deferred_gpt2(small_gpt2());
      Engine engine(model, mine, std::move(comm));
      if (!load.empty()) {
        load_checkpoint(engine, load);
        EXPECT_EQ(engine.loss_scale(), saved);
      }
      for (int step = from; step < to; ++step) {
        for (int m = rank; m < work.micro_batches; m += ranks) {
          const auto [tokens, targets] = batch_of(work, 257, step, m);
          engine.backward(engine.forward(model, tokens, targets), work.seq_len);
        }
        const StepReport report = engine.step();
        if (rank == 0) result.losses.push_back(report.loss);
      }
      collect_shards(engine, result);
      if (!saves) return;
      SavedState state;
      state.step = engine.num_steps();
      const std::string made = save_checkpoint(engine, folder, state);
      if (rank == 0) path = made, saved = engine.loss_scale();
    });
    return result;
  };
  run(2, 0, 14, "", true);
  EXPECT_LT(saved.scale, 1 << 24);  // it did overflow,
  EXPECT_GT(saved.num_clean, 0);    // and no longer does
  const Trained unbroken = run(1, 0, 18, "", false);
  for (const int ranks : {1, 2, 4}) {
    const Trained resumed = run(ranks, 14, 18, path, false);
    EXPECT_EQ(resumed.params, unbroken.params);
    EXPECT_EQ(resumed.state, unbroken.state);
  }
  // Another type goes on without; weights alone start with the first scale.
  options.dtype = DType::kBf16;
  options.loss_scale = {};
  saved = {};
  run(1, 14, 15, path, false);
  options.dtype = DType::kFp16;
  auto model = deferred_gpt2(small_gpt2());
  Engine fresh(model, options, nullptr);
  LoadOptions weights;
  weights.with_optimizer = false;
  load_checkpoint(fresh, path, weights);
  EXPECT_EQ(fresh.loss_scale(), (LossScaleState{1 << 16, 0}));
  fresh.set_loss_scale({1 << 12, 3});  // of what it did before
  load_checkpoint(fresh, path, weights);
  EXPECT_EQ(fresh.loss_scale(), (LossScaleState{1 << 16, 0}));
  // Nor does a manifest that nobody wrote become a scale.
  const checkpoint::Manifest manifest =
      checkpoint::load_manifest(checkpoint::Folder(path));
  const auto expect_refused = [&](const std::string& name, double number,
                                  const std::string& text) {
    checkpoint::Manifest other = manifest;
    other.engine[name] = number;
    std::ofstream(path + "/manifest.json") << to_text(other);
    try {
      load_checkpoint(fresh, path);
      ADD_FAILURE() << name << " " << number;
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  for (const double bad : {3.0, 0.0, -1.0, 1e9})
    expect_refused("loss_scale", bad, "loss_scale is");
  // Nor is a number of a later engine left out.
  for (const std::string name : {"loss_scales", "optimizer_starts"})
    expect_refused(name, 1, "does not know: " + name);
  fs::remove_all(folder);
}

TEST_F(EngineFp16, AScaleIsSetBetweenStepsAndOnlyWhereThereIsOne) {
  options.loss_scale.min = 8;
  auto model = std::make_shared<HookedImpl>();
  Engine engine(model, options, nullptr);
  EXPECT_EQ(engine.loss_scale(), (LossScaleState{1024, 0}));
  engine.set_loss_scale({4, 2});
  EXPECT_EQ(engine.loss_scale(), (LossScaleState{8, 2}));
  EXPECT_THROW(engine.set_loss_scale({3, 0}), Error);
  EXPECT_THROW(engine.set_loss_scale({4, -1}), Error);
  engine.backward(engine.forward(model, torch::ones({130}), torch::ones({2})), 1);
  EXPECT_THROW(engine.set_loss_scale({16, 0}), Error);
  engine.discard_gradients();
  engine.set_loss_scale({16, 0});

  options.dtype = DType::kBf16;
  options.loss_scale = {};
  auto other = std::make_shared<HookedImpl>();
  Engine without(other, options, nullptr);
  EXPECT_THROW(without.set_loss_scale({2, 0}), Error);
  without.backward(without.forward(other, torch::full({130}, NAN), torch::ones({2})), 1);
  const StepReport report = without.step();
  EXPECT_TRUE(report.skipped);
  EXPECT_EQ(report.loss_scale, 0);
  EXPECT_EQ(without.loss_scale(), LossScaleState{});
}

TEST_F(EngineFp16, WhatDoesNotGoTogetherIsRefused) {
  const auto refused = [&](auto change, const std::string& text) {
    Options changed = options;
    change(changed);
    try {
      HookedImpl model;
      plan(model, changed, 1);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  refused([](Options& o) { o.master = MasterStorage::kSplit; },
          "master split belongs to");
  refused([](Options& o) { o.dtype = DType::kBf16; },
          "loss_scale_init belongs to dtype fp16");
  refused([](Options& o) { o.loss_scale.init = 1000; }, "loss_scale_init is 1000");
  refused([](Options& o) { o.dtype = DType::kFp64; }, "dtype is fp64");
  refused([](Options& o) { o.reduce_dtype = DType::kFp16; }, "reduce_dtype is fp16");
  refused([](Options& o) { o.grad_dtype = DType::kFp16; }, "grad_dtype is fp16");
  refused([](Options& o) { o.state_dtype = DType::kFp16; }, "state_dtype is fp16");
}

}  // namespace
}  // namespace zero::testing::engine_fp16_test
