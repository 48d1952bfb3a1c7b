// Training learns: it overfits, it reaches a known entropy, and its gradients are the
// derivatives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "offload/random.h"
#include "tests/engine/training.h"

namespace zero::testing::engine_convergence_test {
namespace {

constexpr double kFirstLoss = 5.57026, kTenthLoss = 5.31660, kLastLoss = 4.45660;

// At this rate a step throws it back now and then: the lowest loss counts.
TEST(Convergence, OverfitsTwoBatches) {
  for (const auto& [ranks, dtype] : {std::pair{1, DType::kBf16}, {2, DType::kFp32}}) {
    Work work;
    Options options = small_options(work);
    options.dtype = dtype;
    options.schedule.lr = 5e-3;
    options.optimizer.weight_decay = 0;
    double loss = 10;
    on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      const int rank = comm->rank();
      auto model = deferred_gpt2(small_gpt2());
      Engine engine(model, options, std::move(comm));
      for (int step = 0; step < 200; ++step) {
        for (int m = rank; m < 2; m += engine.size()) {
          const auto [tokens, targets] = batch_of(work, 257, 0, m);
          engine.backward(engine.forward(model, tokens, targets), 32);
        }
        const StepReport report = engine.step();
        if (rank == 0) loss = std::min(loss, report.loss);
      }
    });
    EXPECT_LT(loss, 0.05) << ranks << " ranks";
  }
}

// A source whose next token depends on the last one alone: with probability 3/4 it is 5 t
// + 3, else uniform over 16.
TEST(Convergence, ReachesTheEntropyOfABigramSource) {
  constexpr int64_t kVocab = 16;
  const double p_next = 0.75 + 0.25 / kVocab, p_other = 0.25 / kVocab;
  const double entropy =
      -(p_next * std::log(p_next) + (kVocab - 1) * p_other * std::log(p_other));
  Gpt2Config config = small_gpt2();
  config.vocab_size = kVocab;
  config.n_layer = 2;
  Work work;
  Options options = small_options(work);
  options.schedule = {.kind = LrSchedule::Kind::kCosine,
                      .lr = 5e-3,
                      .min_lr = 1e-4,
                      .warmup_steps = 10,
                      .total_steps = 300};
  options.optimizer.weight_decay = 0;
  options.init = gpt2_init_rules(config);
  options.nominal_targets = 8 * 32;
  double tail = 0;
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    const int rank = comm->rank();
    auto model = deferred_gpt2(config);
    Engine engine(model, options, std::move(comm));
    for (int step = 0; step < 300; ++step) {
      at::Tensor text = at::empty({8, 33}, at::kLong);
      auto* tokens = text.data_ptr<int64_t>();
      for (int64_t i = 0; i < text.numel(); ++i) {
        const auto random =
            philox(hash_key(rank, "source"), static_cast<uint64_t>(step * 1000 + i), 0);
        const bool follows = i % 33 != 0 && random[0] % 4 != 0;
        tokens[i] = follows ? (tokens[i - 1] * 5 + 3) % kVocab : random[1] % kVocab;
      }
      engine.backward(engine.forward(model, text.narrow(1, 0, 32).contiguous(),
                                     text.narrow(1, 1, 32).contiguous()),
                      8 * 32);
      const StepReport report = engine.step();
      if (rank == 0 && step >= 250) tail += report.loss / 50;
    }
  });
  // 50 steps of 512 targets: three standard errors are below 0.03.
  EXPECT_GT(tail, entropy - 0.03);
  EXPECT_LT(tail, entropy + 0.06);
}

TEST(Convergence, GradientsAreCentralDifferences) {
  at::set_num_threads(1);
  Gpt2Config config = small_gpt2();
  config.n_layer = 1;
  config.n_embd = 16;
  config.vocab_size = 13;
  torch::manual_seed(5);
  auto model = std::make_shared<Gpt2Impl>(config);
  model->to(at::kDouble);
  Work work;
  const auto [tokens, targets] = batch_of(work, 13, 0, 0);
  const auto loss = [&, t = tokens, y = targets] {
    const at::Tensor scores = model->logits(t);
    return torch::nn::functional::cross_entropy(scores.view({-1, 13}), y.reshape(-1));
  };
  loss().backward();
  for (const auto& item : model->named_parameters()) {
    const torch::NoGradGuard no_grad;
    at::Tensor flat = item.value().view(-1);
    const int64_t i = flat.numel() / 3;
    const double h = 1e-5, old = flat[i].item<double>();
    flat[i] = old + h;
    const double above = loss().item<double>();
    flat[i] = old - h;
    const double below = loss().item<double>();
    flat[i] = old;
    const double difference = (above - below) / (2 * h),
                 gradient = item.value().grad().view(-1)[i].item<double>();
    EXPECT_NEAR(gradient, difference, 1e-6 * std::abs(difference) + 1e-9) << item.key();
  }
}

// The first losses of one fixed run, so that a change of arithmetic anywhere is seen.
// Made by this test on x86-64.
TEST(Convergence, FollowsTheRecordedCurve) {
  Work work;
  work.steps = 50;
  Options options = small_options(work);
  options.deterministic = true;
  const Trained run = train(2, options, work);
  EXPECT_NEAR(run.losses[0], kFirstLoss, 1e-4);
  EXPECT_NEAR(run.losses[9], kTenthLoss, 1e-3);
  EXPECT_NEAR(run.losses[49], kLastLoss, 5e-3);
}

}  // namespace
}  // namespace zero::testing::engine_convergence_test
