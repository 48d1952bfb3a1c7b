// The same numbers as the unsharded module, and the same bits whatever the settings that
// may not matter.
#include <gtest/gtest.h>

#include "engine/device/host_device.h"
#include "tests/engine/training.h"
#include "zero/errors.h"

namespace zero::testing::engine_parity_test {
namespace {

class EngineParity : public ::testing::Test {
 protected:
  ~EngineParity() override { set_delays({}); }

  Work work;
  Options options = small_options(work);
};

TEST_F(EngineParity, OneRankEqualsUnshardedBitwise) {
  work.steps = 10;
  expect_same(train(1, options, work), train_unsharded(options, work, /*exact=*/true));
}

TEST_F(EngineParity, OneRankInDeterministicModeEqualsUnshardedBitwise) {
  options.deterministic = true;
  expect_same(train(1, options, work), train_unsharded(options, work, /*exact=*/true));
}

TEST_F(EngineParity, OneRankEqualsTorchAdamW) {
  work.steps = 10;
  expect_close(train(1, options, work), train_unsharded(options, work, /*exact=*/false));
}

TEST_F(EngineParity, RanksEqualUnshardedAtEveryStep) {
  work.steps = 10;
  const Trained reference = train_unsharded(options, work, /*exact=*/false);
  for (const int ranks : {2, 3, 4}) expect_close(train(ranks, options, work), reference);
}

TEST_F(EngineParity, UnevenTargetsGiveTheMeanOverAllTargets) {
  work.masks_targets = true;
  const Trained reference = train_unsharded(options, work, /*exact=*/false);
  for (const int ranks : {1, 2, 3}) expect_close(train(ranks, options, work), reference);
}

TEST_F(EngineParity, DeterministicRanksAreBitwiseEqual) {
  options.deterministic = true;
  work.steps = 20;
  const Trained one = train(1, options, work);
  for (const int ranks : {2, 4}) expect_same(train(ranks, options, work), one);
}

TEST_F(EngineParity, DeterministicRanksAreBitwiseEqualInBf16WithDropoutOff) {
  options.deterministic = true;
  options.dtype = options.reduce_dtype = DType::kBf16;
  work.masks_targets = true;
  const Trained one = train(1, options, work);
  for (const int ranks : {2, 4}) expect_same(train(ranks, options, work), one);
}

TEST_F(EngineParity, DeterministicModeRefusesRanksThatAreNoPowerOfTwo) {
  options.deterministic = true;
  EXPECT_THROW(train(3, options, work), Error);
}

TEST_F(EngineParity, AccumulationEqualsOneLargeBatch) {
  Work one_batch;
  one_batch.micro_batches = 1;
  one_batch.rows = 12;
  one_batch.steps = 1;
  std::vector<at::Tensor> tokens, targets;
  Work pieces;
  for (int m = 0; m < 12; ++m) {
    tokens.push_back(batch_of(pieces, 257, 0, m).first);
    targets.push_back(batch_of(pieces, 257, 0, m).second);
  }
  // Gradients of one pass over all rows, by plain autograd of the unsharded module,
  // against twelve passes.
  pieces.steps = 1;
  const Trained accumulated = train(2, options, pieces);
  options.nominal_targets = 1;
  const Trained other_divisor = train(2, options, pieces);
  expect_close(other_divisor, accumulated);
  const auto [loss, norm] = loss_and_norm_of(at::cat(tokens), at::cat(targets), options);
  EXPECT_NEAR(accumulated.losses[0], loss, 1e-5);
  EXPECT_NEAR(accumulated.norms[0], norm, 1e-5);
}

// The rank's whole batch in one pass, each unit working on it micro-batch by micro-batch.
TEST_F(EngineParity, UnitMajorAccumulationEqualsUnsharded) {
  work.micro_batches = 2;
  work.rows = 6;
  const Trained reference = train_unsharded(options, work, /*exact=*/false);
  options.accumulate = Accumulate::kUnit;
  options.micro_batch = 2;
  for (const Recompute recompute : {Recompute::kUnit, Recompute::kNone}) {
    options.recompute = recompute;
    const Trained unit_major = train(2, options, work);
    expect_close(unit_major, reference);
    EXPECT_EQ(unit_major.num_reductions, work.steps * 4);
    EXPECT_EQ(unit_major.num_gathers,
              work.steps * (1 + 3 + 1));  // forward, and one again in backward
  }
  options.micro_batch = 4;
  EXPECT_THROW(train(1, options, work), Error);
  options.micro_batch = 2;
  options.deterministic = true;
  EXPECT_THROW(train(1, options, work), Error);
}

TEST_F(EngineParity, SettingsOfSpeedChangeNoBit) {
  const Trained reference = train(2, options, work);
  const auto expect_unchanged = [&](const std::string& what, auto change) {
    SCOPED_TRACE(what);
    Options changed = options;
    change(changed);
    expect_same(train(2, changed, work), reference);
  };
  for (const int prefetch : {0, 2, 3}) {
    expect_unchanged("prefetch " + std::to_string(prefetch),
                     [&](Options& o) { o.prefetch = prefetch; });
  }
  expect_unchanged("no recompute", [](Options& o) { o.recompute = Recompute::kNone; });
  expect_unchanged("no reshard", [](Options& o) { o.reshard_after_forward = false; });
  expect_unchanged("neither", [](Options& o) {
    o.reshard_after_forward = false;
    o.recompute = Recompute::kNone;
  });
  expect_unchanged("two Adam threads", [](Options& o) { o.adam_threads = 2; });
  expect_unchanged("four Adam threads", [](Options& o) { o.adam_threads = 4; });
  expect_unchanged("updates inside step()",
                   [](Options& o) { o.overlap_updates = false; });
  expect_unchanged("everything in the root unit",
                   [](Options& o) { o.auto_wrap.min_numel = 1 << 30; });
  expect_unchanged("chaos", [](Options& o) { o.chaos_seed = 7; });
  expect_unchanged("chaos without recompute", [](Options& o) {
    o.chaos_seed = 8;
    o.recompute = Recompute::kNone;
    o.prefetch = 2;
  });
}

TEST_F(EngineParity, OneRankStreamsOrComputesInPlaceWithTheSameBits) {
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    options.dtype = dtype;
    options.stream_always = false;
    const Trained in_place = train(1, options, work);
    options.stream_always = true;
    expect_same(train(1, options, work), in_place);
  }
}

TEST_F(EngineParity, DelaysChangeNoBit) {
  work.steps = 2;
  work.micro_batches = 4;
  const Trained reference = train(2, options, work);
  for (const std::string point : {"forward", "backward", "adam", "update",
                                  "comm.all_gather", "comm.reduce_scatter"}) {
    SCOPED_TRACE(point);
    set_delays({{point, 5}});
    expect_same(train(2, options, work), reference);
  }
  set_delays({});
  const Trained alone = train(1, options, work);
  set_delays({{"update", 20}});
  expect_same(train(1, options, work), alone);
}

TEST_F(EngineParity, TheSameRunTwiceGivesTheSameBits) {
  expect_same(train(3, options, work), train(3, options, work));
}

TEST_F(EngineParity, EvaluationBetweenStepsChangesNoBit) {
  const Trained reference = train(2, options, work);
  Hooks hooks;
  hooks.after_step = [&](Engine& engine, Gpt2Impl& model, int) {
    const torch::NoGradGuard no_grad;
    const auto [tokens, targets] = batch_of(work, 257, 99, 0);
    Gpt2Impl* pointer = &model;
    engine.forward(pointer, tokens, targets);
  };
  hooks.before_step_end = hooks.after_step;
  expect_same(train(2, options, work, hooks), reference);
}

TEST_F(EngineParity, DropoutDependsOnSeedAndMicroBatchNotOnRanksOrRecompute) {
  Gpt2Config config = small_gpt2();
  config.dropout = 0.2;
  options.stream_always = true;
  const Trained reference = train(1, options, work, {}, config);
  options.recompute = Recompute::kNone;
  expect_same(train(1, options, work, {}, config), reference);
  options.auto_wrap.min_numel = 1 << 30;
  expect_same(train(1, options, work, {}, config), reference);
  options.seed = 4;
  EXPECT_NE(train(1, options, work, {}, config).losses, reference.losses);
}

TEST_F(EngineParity, Bf16FollowsFp32) {
  work.steps = 6;
  const Trained fp32 = train(2, options, work);
  options.dtype = DType::kBf16;
  const Trained bf16 = train(2, options, work);
  for (size_t i = 0; i < fp32.losses.size(); ++i)
    EXPECT_NEAR(bf16.losses[i], fp32.losses[i], 0.02 * fp32.losses[i]);
  EXPECT_NE(bf16.losses, fp32.losses);
}

}  // namespace
}  // namespace zero::testing::engine_parity_test
