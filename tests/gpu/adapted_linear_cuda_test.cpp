// Layers with adapters on a GPU, whose products of bf16 are as exact as those of fp32.
#include <gtest/gtest.h>

#include "tests/engine/layers/adapted_linear_story.h"

namespace zero::testing::adapted_linear_cuda_test {
namespace {

const c10::Device kGpu(c10::kCUDA, 0);

TEST(AdaptedLinearOnAGpu, IsAsExactAsTheExpression) {
  at::manual_seed(2);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    AdaptedStory story(type, kGpu);
    const at::Tensor x = at::randn({3, 70, 17}, at::kDouble).to(kGpu, type);
    const Tensors exact = story.exact().all_of_expression(x.to(c10::kCPU, at::kDouble));
    const Tensors ours = story.all_of_ours(x), beside = story.all_of_expression(x);
    for (size_t i = 0; i < exact.size(); ++i) {
      const double size = exact[i].norm().item<double>();
      const bool is_of_factor = i == 1 || i == 2;
      EXPECT_LE(error_of(ours[i], exact[i]),
                1.5 * error_of(beside[i], exact[i]) + (is_of_factor ? 2e-6 * size : 0))
          << type << " " << i;
    }
  }
}

// Of the adapter's part alone, and rounded to bf16 at the end.
TEST(AdaptedLinearOnAGpu, RoundsOnce) {
  at::manual_seed(3);
  AdaptedStory story(at::kBFloat16, kGpu);
  const torch::NoGradGuard no_grad;
  story.layer->weight.zero_();
  story.layer->bias.zero_();
  const at::Tensor x = at::randn({500, 17}, at::kDouble).to(kGpu, at::kBFloat16);
  const at::Tensor exact = story.exact().expression(x.to(c10::kCPU, at::kDouble));
  const at::Tensor is_same = story.ours(x).cpu() == exact.to(at::kBFloat16);
  EXPECT_GT(is_same.to(at::kDouble).mean().item<double>(), 0.98);
}

}  // namespace
}  // namespace zero::testing::adapted_linear_cuda_test
