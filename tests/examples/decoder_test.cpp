// Parts that decoders share, each against its formula.
#include "examples/models/decoder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "examples/models/llama.h"
#include "tests/engine/training.h"
#include "tests/examples/references.h"
#include "zero/deferred_init.h"

namespace zero::decoder_test {
namespace {

// Two groups of three: in turn they would be three groups of two. With dropout, here of
// next to nothing, LibTorch's flash kernels do not take them.
TEST(Attend, EachKeyHeadServesHeadsInARow) {
  torch::manual_seed(1);
  const at::Tensor q = torch::randn({2, 6, 5, 4}, torch::kFloat64);
  const at::Tensor k = torch::randn({2, 2, 5, 4}, torch::kFloat64);
  const at::Tensor v = torch::randn({2, 2, 5, 4}, torch::kFloat64);
  for (const double dropout : {0., 1e-15}) {
    const at::Tensor found = attend(q, k, v, Positions{{}, 0, {}}, dropout);
    ASSERT_EQ(found.sizes(), (std::vector<int64_t>{2, 5, 24}));
    for (int64_t head = 0; head < 6; ++head) {
      const at::Tensor scores =
          q.select(1, head).matmul(k.select(1, head / 3).transpose(1, 2)) / 2;
      const at::Tensor future = torch::ones({5, 5}, torch::kBool).triu(1);
      const at::Tensor expected =
          scores.masked_fill(future, -INFINITY).softmax(-1).matmul(v.select(1, head / 3));
      EXPECT_LT(largest_difference(found.narrow(2, 4 * head, 4), expected), 1e-12)
          << head;
    }
  }
}

constexpr int64_t kTokens = 600, kDim = 12, kVocab = 29;

// A head with a bias, what it reads, and its targets, some of which are ignored.
struct HeadCase {
  explicit HeadCase(at::ScalarType type) {
    torch::manual_seed(5);
    weight = (torch::randn({kVocab, kDim}) / 2).to(type);
    bias = torch::randn({kVocab}).to(type);
    hidden = torch::randn({kTokens, kDim}).to(type);
    targets = torch::randint(kVocab, {kTokens}, torch::kLong);
    targets.masked_fill_(torch::rand({kTokens}) < 0.25, -1);
  }

  HeadImpl head(int64_t loss_chunk) const {
    HeadImpl head(kDim, kVocab, /*has_bias=*/true, loss_chunk);
    const torch::NoGradGuard no_grad;
    head.to(weight.scalar_type());
    head.weight.copy_(weight);
    head.bias.copy_(bias);
    return head;
  }
  // Of logits in their type, with everything behind them in fp64.
  at::Tensor bias_grad() const {
    const at::Tensor logits = torch::linear(hidden, weight, bias).to(torch::kFloat64);
    const at::Tensor hits = torch::one_hot(targets.clamp_min(0), kVocab);
    return (logits.softmax(-1) - hits).masked_fill((targets == -1).unsqueeze(1), 0).sum(0);
  }

  at::Tensor weight, bias, hidden, targets;
};

TEST(Head, TheBiasIsAdded) {
  const HeadCase given(torch::kFloat32);
  EXPECT_LT(largest_difference(given.head(0).forward(given.hidden, {}),
                               given.hidden.matmul(given.weight.t()) + given.bias),
            1e-5);
}

// Summed over chunks in fp32: in bf16 a gradient above 256 would lose what one token
// adds.
TEST(Head, TheBiasLearnsFromEveryChunk) {
  for (const auto& [type, bound] :
       {std::pair(torch::kFloat32, 1e-6), {torch::kBFloat16, 4e-3}}) {
    const HeadCase given(type);
    const at::Tensor expected = given.bias_grad();
    for (const int64_t chunk : {0, 1, 7, 600}) {
      HeadImpl head = given.head(chunk);
      (2 * head.forward(given.hidden, given.targets)).backward();
      EXPECT_EQ(head.bias.grad().scalar_type(), type);
      EXPECT_LT(largest_difference(head.bias.grad(), 2 * expected),
                bound * 2 * expected.abs().max().item<double>())
          << type << ", chunk " << chunk;
    }
  }
}

TEST(Head, AFrozenBiasGetsNoGradient) {
  const HeadCase given(torch::kFloat32);
  HeadImpl head = given.head(7);
  head.bias.set_requires_grad(false);
  head.forward(given.hidden, given.targets).backward();
  EXPECT_FALSE(head.bias.grad().defined());
  EXPECT_TRUE(head.weight.grad().defined());
}

// A decoder whose embedding and head are large enough to be units, unless they are tied.
class DecoderInEngine : public ::testing::TestWithParam<bool> {
 protected:
  DecoderInEngine() {
    config_.vocab_size = 1 << 17;
    config_.n_embd = config_.n_inner = 8;
    config_.n_positions = 0;
    config_.n_layer = 1;
    config_.n_head = config_.num_kv_heads = 2;
    config_.head_dim = config_.rotary.dim = 4;
    config_.has_tied_head = GetParam();
    config_.has_head_bias = true;
    options_.init = {{"*norm.weight", ones()}, {"*", normal(0, 0.3)}};
    options_.schedule.lr = 1e-3;
    options_.optimizer.eps = 1e-3;  // rounding of small gradients stays small
    options_.nominal_targets = static_cast<double>(kSeqLen);
    options_.adam_threads = 1;
    options_.device = DeviceChoice::kCpu;
  }

  // A step of `kRows` rows in all, as many at a time as a forward takes.
  void step(Engine& engine, const std::shared_ptr<Decoder>& model, int64_t at_once) {
    const int64_t own = kRows / engine.size(), first = engine.rank() * own;
    for (int64_t row = first; row < first + own; row += at_once) {
      const at::Tensor text = text_.narrow(0, row, at_once);
      engine.backward(
          engine.forward(model, text.narrow(1, 0, kSeqLen), text.narrow(1, 1, kSeqLen)),
          at_once * kSeqLen);
    }
  }

  std::shared_ptr<Decoder> deferred_llama() const {
    const DeferredInit guard;
    return make_llama(config_);
  }

  testing::Trained train(int ranks, Accumulate accumulate) {
    Options options = options_;
    options.accumulate = accumulate;
    const bool is_unit_major = accumulate == Accumulate::kUnit;
    options.micro_batch = is_unit_major ? 1 : 0;
    testing::Trained run;
    testing::on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      const int64_t at_once = is_unit_major ? kRows / comm->size() : 1;
      const auto model = deferred_llama();
      Engine engine(model, options, std::move(comm));
      for (int i = 0; i < 2; ++i) {
        step(engine, model, at_once);
        const StepReport report = engine.step();
        if (engine.rank() != 0) continue;
        run.losses.push_back(report.loss);
        run.norms.push_back(report.grad_norm);
      }
      testing::collect_shards(engine, run);
    });
    return run;
  }

  static constexpr int64_t kRows = 4, kSeqLen = 5;
  LlamaConfig config_;
  Options options_;
  const at::Tensor text_ =
      (torch::arange(kRows * (kSeqLen + 1)) * 7919 % (1 << 17)).view({kRows, kSeqLen + 1});
};

INSTANTIATE_TEST_SUITE_P(Tied, DecoderInEngine, ::testing::Bool());

TEST_P(DecoderInEngine, WholeBatchesPerUnitTrainAlike) {
  const testing::Trained reference = train(1, Accumulate::kModel);
  for (const int64_t chunk : {0, 3}) {
    config_.loss_chunk = chunk;
    for (const int ranks : {1, 2})
      testing::expect_close(train(ranks, Accumulate::kUnit), reference);
  }
}

// What is kept from the forward and what is made again has the same bits.
TEST_P(DecoderInEngine, RecomputationOfTheHeadChangesNoBit) {
  for (const int64_t chunk : {0, 3}) {
    config_.loss_chunk = chunk;
    options_.recompute = Recompute::kUnit;
    const testing::Trained recomputed = train(1, Accumulate::kUnit);
    options_.recompute = Recompute::kNone;
    testing::expect_same(recomputed, train(1, Accumulate::kUnit));
  }
}

}  // namespace
}  // namespace zero::decoder_test
