// cross_entropy() on a GPU: the host's bits.
#include <gtest/gtest.h>

#include "engine/layers/torch/eager.h"
#include "tests/engine/layers/layer_story.h"
#include "zero/layers.h"

namespace zero::testing::loss_cuda_test {
namespace {

const c10::Device kGpu(c10::kCUDA, 0);

// Logits, and targets of which a fourth is ignored.
struct Scores {
  at::Tensor logits, targets;
  Scores to(c10::Device device) const { return {logits.to(device), targets.to(device)}; }
};

Scores some_scores(int64_t rows, int64_t classes, at::ScalarType type) {
  at::manual_seed(12);
  const at::Tensor targets = at::randint(classes, {rows}, at::kLong);
  return {(at::randn({rows, classes}, at::kDouble) * 3).to(type),
          targets.masked_fill(at::rand({rows}) < 0.25, -1)};
}

using Loss = at::Tensor (*)(const at::Tensor& logits, const at::Tensor& targets);

// Without a graph, with one, and the gradient of a third of it: on the host.
Tensors all_of(const Scores& scores, Loss loss = cross_entropy) {
  const at::Tensor alone = loss(scores.logits, scores.targets);
  const at::Tensor leaf = scores.logits.detach().requires_grad_();
  const at::Tensor sum = loss(leaf, scores.targets);
  const at::Tensor grad =
      torch::autograd::grad({sum}, {leaf}, {at::full_like(sum, 1. / 3)})[0];
  return on_device({alone, sum, grad}, c10::kCPU);
}

TEST(LossOnAGpu, HasTheBitsOfTheHost) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const auto& [rows, classes] :
         {std::pair(1, 1), {300, 40}, {5, 31}, {7, 1000}, {40, 5003}, {3, 50000}}) {
      const Scores scores = some_scores(rows, classes, type);
      EXPECT_TRUE(same_bits(all_of(scores.to(kGpu)), all_of(scores)))
          << type << " " << rows << " x " << classes;
    }
  }
}

TEST(LossOnAGpu, TakesAnyLayout) {
  const Scores flat = some_scores(24, 10, at::kFloat);
  const Scores there = flat.to(kGpu);
  const Scores turned = {there.logits.t().contiguous().t(), there.targets};
  const Scores deep = {there.logits.view({4, 6, 10}), there.targets.view({4, 6})};
  EXPECT_TRUE(same_bits(all_of(turned), all_of(flat)));
  EXPECT_TRUE(same_bits(all_of(deep)[2].view({24, 10}), all_of(flat)[2]));
}

TEST(LossOnAGpu, LogitsThatNobodyElseHasBecomeTheGradient) {
  const Scores scores = some_scores(6, 50, at::kFloat), there = scores.to(kGpu);
  const at::Tensor leaf = there.logits.clone().requires_grad_();
  at::Tensor logits = leaf * 1;
  const void* const memory = logits.data_ptr();
  const void* lies_at = nullptr;
  logits.register_hook([&](const at::Tensor& grad) { lies_at = grad.data_ptr(); });
  const at::Tensor loss = cross_entropy(logits, there.targets) / 3;
  logits.reset();
  loss.backward();
  EXPECT_EQ(lies_at, memory);
  EXPECT_TRUE(at::allclose(leaf.grad().cpu(), all_of(scores)[2], 1e-6, 1e-7));
}

TEST(LossOnAGpu, IsTheExpressionInFp64) {
  const Scores there = some_scores(6, 50, at::kDouble).to(kGpu);
  EXPECT_TRUE(same_bits(all_of(there), all_of(there, eager::cross_entropy)));
}

TEST(LossOnAGpu, TakesTargetsOfItsOwnGpuAlone) {
  const Scores scores = some_scores(6, 50, at::kFloat);
  EXPECT_ANY_THROW(cross_entropy(scores.logits.to(kGpu), scores.targets));
}

}  // namespace
}  // namespace zero::testing::loss_cuda_test
