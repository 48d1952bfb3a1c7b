// Optimizers other than AdamW; gradients, states and masters that are stored in 16 bits:
// against torch, against our arithmetic on whole tensors, on any number of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "tests/engine/training.h"
#include "zero/errors.h"

namespace zero::testing::engine_optimizers_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

OptimizerOptions sgd(bool nesterov) {
  return {.kind = Optimizer::kSgd, .weight_decay = 0.05, .nesterov = nesterov};
}
OptimizerOptions lion() {
  return {.kind = Optimizer::kLion, .beta2 = 0.99, .weight_decay = 0.3};
}
// An eps that tames the first steps of elements whose gradient is rounding noise.
OptimizerOptions adagrad() {
  return {.kind = Optimizer::kAdagrad, .eps = 1e-3, .weight_decay = 0.05};
}

class OptimizersTest : public ::testing::Test {
 protected:
  Options with(const OptimizerOptions& optimizer) const {
    Options options = small_options(work);
    options.optimizer = optimizer;
    if (optimizer.kind == Optimizer::kLion) options.schedule.lr = 3e-4;
    return options;
  }
  Work work{.steps = 4, .micro_batches = 4};
};

TEST_F(OptimizersTest, SgdAndAdagradDoWhatTorchDoes) {
  for (const OptimizerOptions& optimizer : {sgd(false), sgd(true), adagrad()}) {
    SCOPED_TRACE(std::string(name_of(optimizer.kind)) +
                 (optimizer.nesterov ? ", nesterov" : ""));
    const Options options = with(optimizer);
    const Trained plain = train_unsharded(options, work, /*exact=*/false);
    for (const int ranks : {1, 2})
      expect_close(train(ranks, options, work), plain, 1e-5, 1e-5);
  }
}

TEST_F(OptimizersTest, EveryOneKeepsItsBitsOnAnyNumberOfRanks) {
  for (const OptimizerOptions& optimizer : {sgd(true), lion(), adagrad()}) {
    SCOPED_TRACE(name_of(optimizer.kind));
    Options options = with(optimizer);
    options.deterministic = true;
    const Trained exact = train_unsharded(options, work, /*exact=*/true);
    for (const int ranks : {1, 2, 4}) expect_same(train(ranks, options, work), exact);
  }
}

TEST_F(OptimizersTest, EachHasItsOwnStatesInMemoryAndPlan) {
  const auto states_in = [&](const OptimizerOptions& optimizer) {
    std::vector<std::string> names;
    on_ranks(1, [&](std::unique_ptr<Ranks> ranks) {
      auto model = std::make_shared<Gpt2Impl>(small_gpt2());
      Engine engine(model, with(optimizer), std::move(ranks));
      const ShardView first = engine.shards().front();
      for (const StateView& state : first.state) names.push_back(state.name);
      expect_planned_bytes(engine);
    });
    return names;
  };
  EXPECT_THAT(states_in({}), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(states_in(sgd(false)), ElementsAre("momentum_buffer"));
  EXPECT_THAT(states_in(lion()), ElementsAre("exp_avg"));
  EXPECT_THAT(states_in(adagrad()), ElementsAre("sum"));
}

// ---- gradients in bf16

class GradDtypeTest : public OptimizersTest {
 protected:
  GradDtypeTest() { options.grad_dtype = DType::kBf16; }
  Options options = small_options(work);
};

TEST_F(GradDtypeTest, TheFinishedSumIsRoundedOnceHoweverManyPasses) {
  options.deterministic = true;
  const Trained exact = train_unsharded(options, work, /*exact=*/true);
  for (const int ranks : {1, 2, 4}) {  // 4, 2 and 1 passes: as fp32 and as bf16
    SCOPED_TRACE(ranks);
    expect_same(train(ranks, options, work), exact);
  }
}

TEST_F(GradDtypeTest, OneRankInPlaceRoundsAsStreamedOnesDo) {
  for (const int passes : {1, 3}) {
    SCOPED_TRACE(passes);
    Work short_work{.steps = 3, .micro_batches = passes};
    const Trained in_place = train(1, options, short_work);
    expect_same(in_place, train_unsharded(options, short_work, /*exact=*/true));
    options.stream_always = true;
    expect_same(train(1, options, short_work), in_place);
    options.stream_always = false;
  }
}

TEST_F(GradDtypeTest, UnitsInBf16HandTheirGradientsOverAsTheyAre) {
  options.dtype = DType::kBf16;
  const Work one_pass{.steps = 3, .micro_batches = 1};
  const Trained kept = train(1, options, one_pass);
  options.grad_dtype = DType::kFp32;  // which holds the same values
  expect_same(train(1, options, one_pass), kept);
}

TEST_F(GradDtypeTest, OnePassAStepTakesHalfTheMemory) {
  const auto gradient_bytes = [&](int64_t passes) {
    options.micro_batches_per_rank = passes;
    Gpt2Impl model(small_gpt2());
    for (const MemoryEntry& entry : plan(model, options, 2)) {
      if (entry.owner == "gradients") return entry.bytes;
    }
    return int64_t{0};
  };
  const int64_t kept = gradient_bytes(1), summed = gradient_bytes(2);
  EXPECT_EQ(2 * kept, summed);
  options.grad_dtype = DType::kFp32;
  EXPECT_EQ(gradient_bytes(1), summed);
}

TEST_F(GradDtypeTest, OthersSeeTheRoundedGradient) {
  for (const int passes : {1, 2}) {
    options.micro_batches_per_rank = passes;
    on_ranks(2, [&](std::unique_ptr<Ranks> ranks) {
      auto model = std::make_shared<Gpt2Impl>(small_gpt2());
      Engine engine(model, options, std::move(ranks));
      for (int pass = 0; pass < passes; ++pass) {
        const auto [tokens, targets] = batch_of(work, 257, 0, pass);
        engine.backward(engine.forward(model, tokens, targets), 16);
      }
      // 32 nominal targets of 16 * 2 * passes: a power of two, exact in bf16.
      const at::Tensor gradient = engine.full_gradient("transformer.h.1.ln_1.weight");
      EXPECT_TRUE(gradient.equal(gradient.to(at::kBFloat16).to(at::kFloat)));
      EXPECT_GT(gradient.abs().max().item<float>(), 0);
    });
  }
}

TEST_F(GradDtypeTest, ANonFiniteGradientIsStillNamed) {
  on_ranks(2, [&](std::unique_ptr<Ranks> ranks) {
    auto model = std::make_shared<Gpt2Impl>(small_gpt2());
    Engine engine(model, options, std::move(ranks));
    const auto [tokens, targets] = batch_of(work, 257, 0, 0);
    engine.backward(engine.forward(model, tokens, targets) * 1e38 * 1e10, 32);
    const StepReport report = engine.step();
    EXPECT_TRUE(report.skipped);
    EXPECT_THAT(report.first_bad, HasSubstr("transformer"));
  });
}

TEST_F(GradDtypeTest, APassTooManyIsRefusedBeforeAnythingChanges) {
  for (const int planned : {1, 2}) {
    options.micro_batches_per_rank = planned;
    on_ranks(1, [&](std::unique_ptr<Ranks> ranks) {
      auto model = std::make_shared<Gpt2Impl>(small_gpt2());
      Engine engine(model, options, std::move(ranks));
      const auto [tokens, targets] = batch_of(work, 257, 0, 0);
      for (int pass = 0; pass < planned; ++pass)
        engine.backward(engine.forward(model, tokens, targets), 32);
      const at::Tensor more = engine.forward(model, tokens, targets);
      try {
        engine.backward(more, 32);
        FAIL();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kUsage);
        EXPECT_THAT(error.what(),
                    HasSubstr("backward() number " + std::to_string(planned + 1) +
                              " of a step, with grad_dtype bf16 planned for " +
                              std::to_string(planned)));
      }
      EXPECT_FALSE(engine.step().skipped);
    });
  }
}

// ---- masters and states in 16 bits

using StorageTest = OptimizersTest;

TEST_F(StorageTest, StatesInBf16AreRoundedOnceAStepOnAnyNumberOfRanks) {
  for (const OptimizerOptions& optimizer : {OptimizerOptions{}, sgd(true), lion()}) {
    SCOPED_TRACE(name_of(optimizer.kind));
    Options options = with(optimizer);
    options.deterministic = true;
    options.state_dtype = DType::kBf16;
    const Trained exact = train_unsharded(options, work, /*exact=*/true);
    for (const int ranks : {1, 2, 4}) expect_same(train(ranks, options, work), exact);
  }
}

TEST_F(StorageTest, ASplitMasterKeepsItsBitsOnAnyNumberOfRanks) {
  Options options = small_options(work);
  options.deterministic = true;
  options.dtype = DType::kBf16;
  options.master = MasterStorage::kSplit;
  const Trained one = train(1, options, work);
  for (const int ranks : {2, 4}) expect_same(train(ranks, options, work), one);
  options.stream_always = true;
  expect_same(train(1, options, work), one);
}

int64_t num_ties(const Trained& run) {
  int64_t num = 0;
  for (const auto& [fqn, values] : run.params) {
    num += std::ranges::count_if(values, [](float value) {
      return (std::bit_cast<uint32_t>(value) & 0xffffu) == 0x8000u;
    });
  }
  return num;
}

// From weights of which none is a tie.
TEST_F(StorageTest, ASplitMasterStepsAsAWholeOne) {
  Options options = small_options(work);
  options.dtype = DType::kBf16;
  const auto has_ties = [&] { return num_ties(train(1, options, {.steps = 0})) > 0; };
  while (has_ties()) ++options.seed;
  work.steps = 1;
  const Trained whole = train(2, options, work);
  options.master = MasterStorage::kSplit;
  expect_same(train(2, options, work), whole);
}

TEST_F(StorageTest, PlanAndMemoryAgreeAndAreSmaller) {
  Gpt2Impl planned(small_gpt2());
  Options options = small_options(work);
  options.dtype = DType::kBf16;
  const auto bytes_of = [&](std::initializer_list<std::string> owners) {
    int64_t bytes = 0;
    for (const MemoryEntry& entry : plan(planned, options, 2))
      bytes += std::ranges::count(owners, entry.owner) * entry.bytes;
    return bytes;
  };
  const auto masters = [&] {
    return bytes_of({"masters", "low halves of masters", "bf16 copy"});
  };
  const int64_t whole = masters(), states = bytes_of({"exp_avg", "exp_avg_sq"});
  options.master = MasterStorage::kSplit;
  options.state_dtype = DType::kBf16;
  EXPECT_EQ(masters() * 6, whole * 4) << "all of this model computes in bf16";
  EXPECT_EQ(bytes_of({"exp_avg", "exp_avg_sq"}) * 2, states);
  on_ranks(2, [&](std::unique_ptr<Ranks> ranks) {
    auto model = std::make_shared<Gpt2Impl>(small_gpt2());
    const Engine engine(model, options, std::move(ranks));
    int64_t bytes = 0;
    for (const MemoryEntry& entry : engine.memory()) bytes += entry.bytes;
    EXPECT_EQ(engine.allocated_bytes(), bytes);
  });
}

TEST_F(StorageTest, ASplitMasterIsReadAndWrittenWhole) {
  Options options = small_options(work);
  options.dtype = DType::kBf16;
  options.master = MasterStorage::kSplit;
  on_ranks(2, [&](std::unique_ptr<Ranks> ranks) {
    auto model = std::make_shared<Gpt2Impl>(small_gpt2());
    Engine engine(model, options, std::move(ranks));
    const std::string fqn = "transformer.h.1.mlp.c_fc.weight";
    const at::Tensor mine = torch::arange(64 * 256, at::kFloat).view({64, 256}).sin();
    engine.set_full_parameter(fqn, mine);
    EXPECT_TRUE(engine.full_parameter(fqn).equal(mine));
    const ShardView view = engine.local_shard(fqn);
    EXPECT_EQ(view.master[0], mine.flatten()[view.begin].item<float>());
    EXPECT_THROW(view.master.span(), std::logic_error);
  });
}

TEST_F(StorageTest, WhatBf16CannotHoldIsRefused) {
  const auto expect_refused = [&](const Options& options, const std::string& text) {
    Gpt2Impl model(small_gpt2());
    try {
      plan(model, options, 1);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  Options split = small_options(work);
  split.master = MasterStorage::kSplit;
  expect_refused(split, "master split belongs to dtype bf16");
  Options options = with(adagrad());
  options.state_dtype = DType::kBf16;
  expect_refused(options, "state_dtype bf16 for adagrad");
  options.optimizer = {.beta2 = 0.999};
  expect_refused(options, "betas of up to 0.999");
  options.optimizer = {.kind = Optimizer::kSgd, .momentum = 0.995};
  expect_refused(options, "momentum 0.995");
  options.optimizer = {};
  options.state_dtype = DType::kFp16;
  expect_refused(options, "state_dtype is fp16");
}

}  // namespace
}  // namespace zero::testing::engine_optimizers_test
