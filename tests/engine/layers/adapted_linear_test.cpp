// A frozen layer with an adapter, as one function.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include "tests/engine/layers/adapted_linear_story.h"

namespace zero::testing::adapted_linear_test {
namespace {

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble};

at::Tensor some_rows(at::IntArrayRef sizes, at::ScalarType type) {
  return at::randn(sizes, at::kDouble).to(type);
}

TEST(AdaptedLinear, IsAsExactAsTheExpression) {
  at::manual_seed(1);
  for (const at::ScalarType type : kTypes) {
    for (const bool has_bias : {true, false}) {
      AdaptedStory story(type, c10::kCPU, 0, has_bias);
      for (const std::vector<int64_t>& sizes :
           std::vector<std::vector<int64_t>>{{17}, {300, 17}, {2, 9, 17}, {0, 17}}) {
        SCOPED_TRACE(::testing::Message() << type << " " << sizes << has_bias);
        const at::Tensor x = some_rows(sizes, type);
        const Tensors exact = story.exact().all_of_expression(x.to(at::kDouble));
        const Tensors ours = story.all_of_ours(x), beside = story.all_of_expression(x);
        for (size_t i = 0; i < exact.size(); ++i) {
          EXPECT_EQ(ours[i].sizes(), exact[i].sizes());
          EXPECT_EQ(ours[i].scalar_type(), beside[i].scalar_type());
          EXPECT_LE(
              error_of(ours[i], exact[i]),
              1.5 * error_of(beside[i], exact[i]) +
                  (type == at::kDouble ? 1e-15 : 6e-8) * exact[i].norm().item<double>())
              << i;
        }
      }
    }
  }
}

TEST(AdaptedLinear, GivesTheSameBitsWithoutAGraph) {
  AdaptedStory story(at::kBFloat16);
  const at::Tensor x = some_rows({5, 17}, at::kBFloat16), y = story.ours(x);
  EXPECT_TRUE(y.requires_grad());
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(same_bits(story.ours(x), y));
}

TEST(AdaptedLinear, GivesFactorsTheirGradientsWhereXNeedsNone) {
  AdaptedStory story(at::kFloat);
  const at::Tensor x = some_rows({5, 17}, at::kFloat);
  const Tensors all = story.all_of_ours(x);
  const at::Tensor y = story.ours(x);
  const Tensors found =
      torch::autograd::grad({y}, {story.a, story.b}, {AdaptedStory::weights_of(y)});
  EXPECT_TRUE(same_bits(found, {all[1], all[2]}));
}

TEST(AdaptedLinear, HasSecondDerivatives) {
  AdaptedStory story(at::kDouble), dropping(at::kDouble, c10::kCPU, /*dropout=*/0.25);
  const auto second = [](const AdaptedStory& of, const at::Tensor& x,
                         const at::Tensor& y) {
    const Tensors leaves = {x, of.a, of.b};
    const Tensors first = torch::autograd::grad({y.square().sum()}, leaves, {},
                                                /*retain_graph=*/true, /*create=*/true);
    at::Tensor sum = at::zeros({}, at::kDouble);
    for (const at::Tensor& each : first) sum = sum + each.square().sum();
    return torch::autograd::grad({sum}, leaves);
  };
  const auto expect_same = [](const Tensors& ours, const Tensors& beside) {
    for (size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(at::allclose(ours[i], beside[i], 1e-10, 1e-12)) << i;
  };
  for (const int64_t rows : {5, 20}) {
    const at::Tensor x = some_rows({rows, 17}, at::kDouble).requires_grad_();
    expect_same(second(story, x, story.ours(x)), second(story, x, story.expression(x)));
    at::manual_seed(7);
    const at::Tensor y = dropping.ours(x);
    at::manual_seed(7);
    const at::Tensor kept = at::empty_like(x).bernoulli_(0.75) / 0.75;
    expect_same(second(dropping, x, y),
                second(dropping, x, dropping.expression(x, kept)));
  }
}

// What is dropped is dropped from the adapter's input alone, and the rest weighs more.
TEST(AdaptedLinear, DropsAsTheExpressionDoes) {
  for (const at::ScalarType type : {at::kDouble, at::kBFloat16}) {
    AdaptedStory story(type, c10::kCPU, /*dropout=*/0.25);
    const at::Tensor x = some_rows({40, 17}, type);
    at::manual_seed(7);
    const Tensors ours = story.all_of_ours(x);
    at::manual_seed(7);
    const at::Tensor kept = at::empty_like(x).bernoulli_(0.75).to(at::kDouble) / 0.75;
    const Tensors exact = story.exact().all_of_expression(x.to(at::kDouble), kept);
    EXPECT_GT(kept.eq(0).sum().item<int64_t>(), 100);
    for (size_t i = 0; i < exact.size(); ++i)
      EXPECT_LE(error_of(ours[i], exact[i]),
                (type == at::kDouble ? 1e-13 : 5e-3) * exact[i].norm().item<double>())
          << i;
  }
}

// A base that is trained has its gradient; autocast has its types.
TEST(AdaptedLinear, LeavesOtherLayersToTheExpression) {
  AdaptedStory story(at::kFloat, c10::kCPU, /*dropout=*/0.5);
  const at::Tensor x = some_rows({5, 17}, at::kFloat);
  story.layer->weight.set_requires_grad(true);
  EXPECT_FALSE(same_bits(story.ours(x), story.ours(x)));
  story.layer->eval();
  EXPECT_TRUE(same_bits(story.all_of_ours(x), story.all_of_expression(x)));
  const at::Tensor weight_grad =
      torch::autograd::grad({story.ours(x).sum()}, {story.layer->weight})[0];
  EXPECT_TRUE(at::allclose(weight_grad, x.sum(0).expand_as(weight_grad)));
  story.layer->weight.set_requires_grad(false);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor ours = story.ours(x), beside = story.expression(x);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(ours.scalar_type(), beside.scalar_type());
}

}  // namespace
}  // namespace zero::testing::adapted_linear_test
