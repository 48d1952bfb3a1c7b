// Functions of zero/layers.h on a GPU: the host's bits, beside LibTorch's expressions.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include "tests/engine/layers/layer_story.h"

namespace zero::testing::layers_cuda_test {
namespace {

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

const c10::Device kGpu(c10::kCUDA, 0);

class LayersOnAGpu : public ::testing::TestWithParam<LayerStory> {
 protected:
  void SetUp() override { at::manual_seed(5); }

  // The result, and gradients of what needs one: on the host.
  Tensors all_of(const LayerFunction& function, const Tensors& inputs) {
    Tensors all = gradients_of(function, inputs, story.num_needed);
    all.push_back(function(inputs));
    return on_device(all, c10::kCPU);
  }
  void expect_same_as_on_the_host(const Tensors& inputs) {
    EXPECT_TRUE(same_bits(all_of(story.ours, on_device(inputs, kGpu)),
                          all_of(story.ours, inputs)));
  }

  const LayerStory& story = GetParam();
};

TEST_P(LayersOnAGpu, TheBitsOfTheHost) {
  for (const at::ScalarType type : kTypes) {
    for (const auto& [rows, width] : {std::pair(1, 1), {7, 31}, {70, 64}, {3, 2500}}) {
      SCOPED_TRACE(::testing::Message() << type << " " << rows << " x " << width);
      expect_same_as_on_the_host(in_type(story.inputs(rows, width), type));
    }
  }
}

TEST_P(LayersOnAGpu, TheSameBitsEachTime) {
  const Tensors inputs = on_device(in_type(story.inputs(500, 512), at::kBFloat16), kGpu);
  const Tensors first = all_of(story.ours, inputs);
  for (int time = 0; time < 3; ++time)
    EXPECT_TRUE(same_bits(all_of(story.ours, inputs), first));
}

TEST_P(LayersOnAGpu, AsExactAsTheExpression) {
  for (const at::ScalarType type : kTypes) {
    for (const auto& [rows, width] : {std::pair(300, 64), {3, 4096}}) {
      SCOPED_TRACE(::testing::Message() << type << " " << rows << " x " << width);
      const Tensors inputs = in_type(story.inputs(rows, width), type);
      const Tensors there = on_device(inputs, kGpu);
      const Tensors exact = all_of(story.eager, in_type(inputs, at::kDouble));
      const Tensors ours = all_of(story.ours, there), eager = all_of(story.eager, there);
      for (size_t i = 0; i < exact.size(); ++i)
        EXPECT_LE(error_of(ours[i], exact[i]), 1.5 * error_of(eager[i], exact[i]) + 1e-30)
            << i;
    }
  }
}

// Of every second element, and of a part of each row, which begins anywhere.
TEST_P(LayersOnAGpu, TakeViews) {
  const Tensors inputs = in_type(story.inputs(6, 16), at::kFloat);
  const at::Tensor x = inputs[0].to(kGpu);
  const at::Tensor sparse = at::stack({x, -x}, -1).select(-1, 0);
  const at::Tensor part =
      at::cat({-x.narrow(-1, 0, 1), x, -x}, -1).narrow(-1, 1, x.size(-1));
  for (const at::Tensor& view : {sparse, part}) {
    Tensors views = on_device(inputs, kGpu);
    views[0] = view;
    EXPECT_TRUE(same_bits(all_of(story.ours, views), all_of(story.ours, inputs)));
  }
}

TEST_P(LayersOnAGpu, TakeGradientsOfAnyLayout) {
  Tensors inputs = on_device(in_type(story.inputs(6, 8), at::kFloat), kGpu);
  inputs[0].requires_grad_();
  const at::Tensor y = story.ours(inputs);
  const auto gradient = [&](const at::Tensor& grad) {
    return torch::autograd::grad({y}, {inputs[0]}, {grad}, /*retain_graph=*/true)[0].cpu();
  };
  const at::Tensor one = at::ones({}, y.options());
  EXPECT_TRUE(same_bits(gradient(one.expand_as(y)), gradient(at::ones_like(y))));
}

TEST_P(LayersOnAGpu, ByTheExpressionInFp64) {
  const Tensors inputs = on_device(story.inputs(3, 8), kGpu);
  EXPECT_TRUE(same_bits(all_of(story.ours, inputs), all_of(story.eager, inputs)));
}

TEST_P(LayersOnAGpu, DoUnderAutocastWhatTheExpressionDoes) {
  const Tensors inputs = on_device(in_type(story.inputs(3, 8), at::kFloat), kGpu);
  at::autocast::set_autocast_enabled(at::kCUDA, true);
  const at::Tensor ours = story.ours(inputs), eager = story.eager(inputs);
  at::autocast::set_autocast_enabled(at::kCUDA, false);
  EXPECT_TRUE(same_bits(ours.cpu(), eager.cpu()));
}

TEST_P(LayersOnAGpu, HaveSecondDerivatives) {
  Tensors inputs = on_device(in_type(story.inputs(4, 8), at::kFloat), kGpu);
  const auto second = [&](const LayerFunction& function) {
    Tensors leaves = inputs;
    leaves[0] = inputs[0].detach().requires_grad_();
    const at::Tensor y = function(leaves), grad = at::ones_like(y).requires_grad_();
    const at::Tensor first =
        torch::autograd::grad({y}, {leaves[0]}, {grad}, true, /*create_graph=*/true)[0];
    return torch::autograd::grad({first.square().sum()}, {grad})[0].cpu();
  };
  EXPECT_TRUE(at::allclose(second(story.ours), second(story.eager), 1e-4, 1e-5));
}

INSTANTIATE_TEST_SUITE_P(All, LayersOnAGpu, ::testing::ValuesIn(layer_stories()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace zero::testing::layers_cuda_test
