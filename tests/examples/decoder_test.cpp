// Parts that decoders share, each against its formula.
#include "examples/models/decoder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/examples/references.h"

namespace zero::decoder_test {
namespace {

// Two groups of three: in turn they would be three groups of two.
TEST(Attend, EachKeyHeadServesHeadsInARow) {
  torch::manual_seed(1);
  const at::Tensor q = torch::randn({2, 6, 5, 4}, torch::kFloat64);
  const at::Tensor k = torch::randn({2, 2, 5, 4}, torch::kFloat64);
  const at::Tensor v = torch::randn({2, 2, 5, 4}, torch::kFloat64);
  const at::Tensor found = attend(q, k, v, {}, 0);
  ASSERT_EQ(found.sizes(), (std::vector<int64_t>{2, 5, 24}));
  for (int64_t head = 0; head < 6; ++head) {
    const at::Tensor scores =
        q.select(1, head).matmul(k.select(1, head / 3).transpose(1, 2)) / 2;
    const at::Tensor future = torch::ones({5, 5}, torch::kBool).triu(1);
    const at::Tensor expected =
        scores.masked_fill(future, -INFINITY).softmax(-1).matmul(v.select(1, head / 3));
    EXPECT_LT(largest_difference(found.narrow(2, 4 * head, 4), expected), 1e-12) << head;
  }
}

TEST(WindowMask, ShowsTheLastKeysUpToTheQuerysOwn) {
  const at::Tensor mask = window_mask(6, 3, torch::kCPU);
  for (int64_t query = 0; query < 6; ++query) {
    for (int64_t key = 0; key < 6; ++key)
      EXPECT_EQ(mask[query][key].item<bool>(), key <= query && key > query - 3);
  }
  for (const int64_t window : {0, 6, 7})
    EXPECT_FALSE(window_mask(6, window, torch::kCPU).defined()) << window;
  EXPECT_TRUE(window_mask(6, 5, torch::kCPU).defined());
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

}  // namespace
}  // namespace zero::decoder_test
