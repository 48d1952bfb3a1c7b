// How far results are from LibTorch's, and from exact ones.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "engine/layers/kernels.h"
#include "engine/layers/torch/eager.h"
#include "tests/engine/layers/layer_story.h"
#include "zero/layers.h"

namespace zero::testing::exactness_test {
namespace {

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

LayerStory story_of(const std::string& name) {
  for (LayerStory& each : layer_stories())
    if (each.name == name) return each;
  return {};
}

// Of no sum, and no exponential: the expression's own bits.
TEST(LayerExactness, RotationsHaveTheBitsOfTheExpression) {
  at::manual_seed(1);
  for (const std::string name : {"rotate_halves", "rotate_pairs", "rotate_halves_of_rows",
                                 "rotate_pairs_of_rows"}) {
    const LayerStory story = story_of(name);
    for (const at::ScalarType type : kTypes) {
      const Tensors inputs = in_type(story.inputs(23, 17), type);
      EXPECT_TRUE(same_bits(story.ours(inputs), story.eager(inputs))) << name << type;
      EXPECT_TRUE(same_bits(gradients_of(story.ours, inputs, 1),
                            gradients_of(story.eager, inputs, 1)))
          << name << type;
    }
  }
}

// Exponentials differ by 2 values of fp32, and so by 1 of a shorter type at most.
TEST(LayerExactness, SwigluIsNextToTheExpression) {
  at::manual_seed(2);
  const LayerStory story = story_of("swiglu");
  for (const at::ScalarType type : kTypes) {
    const Tensors inputs = in_type(story.inputs(64, 500), type);
    EXPECT_LE(ulps_between(story.ours(inputs), story.eager(inputs)),
              type == at::kFloat ? 2 : 1)
        << type;
  }
}

void expect_as_exact(const at::Tensor& ours, const at::Tensor& eager,
                     const at::Tensor& exact, const std::string& what) {
  EXPECT_LE(error_of(ours, exact), 1.5 * error_of(eager, exact) + 1e-30) << what;
}

TEST(LayerExactness, ErrorsAreThoseOfTheExpression) {
  at::manual_seed(3);
  for (const std::string name : {"rms_norm", "add_rms_norm", "swiglu", "gelu_tanh"}) {
    const LayerStory story = story_of(name);
    for (const at::ScalarType type : kTypes) {
      for (const auto& [rows, width] : {std::pair(2000, 64), {3, 4096}, {100, 384}}) {
        const Tensors inputs = in_type(story.inputs(rows, width), type);
        const Tensors wide = in_type(inputs, at::kDouble);
        const std::string what = name + " " + c10::toString(type) + " " +
                                 std::to_string(rows) + " x " + std::to_string(width);
        expect_as_exact(story.ours(inputs), story.eager(inputs), story.eager(wide), what);
        const Tensors exact = gradients_of(story.eager, wide, story.num_needed);
        const Tensors ours = gradients_of(story.ours, inputs, story.num_needed);
        const Tensors eager = gradients_of(story.eager, inputs, story.num_needed);
        for (size_t i = 0; i < story.num_needed; ++i)
          expect_as_exact(ours[i], eager[i], exact[i], what + ", gradient");
      }
    }
  }
}

// LibTorch's cancels where tanh is next to -1, and is not exact there in fp64 either.
at::Tensor exact_gelu(const at::Tensor& x) {
  const at::Tensor wide = x.to(at::kDouble);
  return wide * at::sigmoid(1.5957691216057307118 * (wide + 0.044715 * wide.pow(3)));
}

TEST(LayerExactness, GeluIsExactWhereTheExpressionCancels) {
  const at::Tensor x = at::arange(-9, 9, 0.00013, at::kDouble).to(at::kFloat);
  const auto error = [&](const at::Tensor& found, const at::Tensor& beside) {
    return ((found - exact_gelu(x)) / beside).abs().max().item<double>();
  };
  EXPECT_LE(error(gelu_tanh(x), x), 1.5 * error(eager::gelu_tanh(x), x));
  EXPECT_LE(error(gelu_tanh(x), exact_gelu(x)), 200 * std::ldexp(1, -24));
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor is_same = gelu_tanh(x.to(type)) == exact_gelu(x.to(type)).to(type);
    EXPECT_GT(is_same.to(at::kDouble).mean().item<double>(), 0.99) << type;
  }
}

// Sums and exponentials differ far below what short types can tell.
TEST(LayerExactness, ShortTypesHaveNearlyAllBitsOfTheExpression) {
  at::manual_seed(4);
  for (const std::string name : {"rms_norm", "swiglu"}) {
    const LayerStory story = story_of(name);
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      const Tensors inputs = in_type(story.inputs(50, 300), type);
      const at::Tensor is_same = story.ours(inputs) == story.eager(inputs);
      EXPECT_GT(is_same.to(at::kDouble).mean().item<double>(), 0.99) << name << type;
    }
  }
}

TEST(LayerExactness, AnExponentialIsWithinAnUlp) {
  double largest = 0;
  for (float x = -86.9f; x < 88.7f; x += 0.00137f) {
    const double exact = std::exp(static_cast<double>(x));
    const float close = static_cast<float>(exact);
    const double ulp = std::nextafter(close, INFINITY) - close;
    largest = std::max(largest, std::fabs(exp_of(x) - exact) / ulp);
  }
  EXPECT_LE(largest, 1);
}

TEST(LayerExactness, ExponentialsEndWhereFloatsDo) {
  EXPECT_EQ(exp_of(0.f), 1);
  EXPECT_EQ(exp_of(88.8f), INFINITY);
  EXPECT_EQ(exp_of(INFINITY), INFINITY);
  const float largest = 88.7228317f;  // the logarithm of FLT_MAX is next to it
  EXPECT_NEAR(exp_of(largest) / std::exp(double{largest}), 1, 1e-7);
  EXPECT_EQ(exp_of(std::nextafter(largest, 89.f)), INFINITY);
  EXPECT_EQ(1 + exp_of(-104.5f), 1);
  EXPECT_EQ(1 + exp_of(-INFINITY), 1);
  EXPECT_TRUE(std::isnan(exp_of(NAN)));
  EXPECT_TRUE(std::isnan(exp_of(std::bit_cast<float>(0x7fc00001u)))) << "one more";
}

TEST(LayerExactness, ALogarithmIsWithinAnUlp) {
  long double largest = 0;
  for (double x = 1; x < 1e9; x *= 1.00037) {
    const long double exact = std::log(static_cast<long double>(x));
    const auto close = static_cast<double>(exact);
    const long double ulp = std::nextafter(close, INFINITY) - close;
    largest = std::max(largest, std::fabs(log_of(x) - exact) / ulp);
  }
  EXPECT_LE(largest, 1);
  EXPECT_EQ(log_of(1), 0);
  EXPECT_EQ(log_of(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(log_of(NAN)));
}

TEST(LayerExactness, WhatIsNotFiniteIsWhatTheExpressionMakesOfIt) {
  const at::Tensor gate =
      at::tensor({INFINITY, -INFINITY, NAN, -100.f, 100.f, -1e30f, 0.f, -0.f});
  const Tensors inputs = {gate, at::ones({8}, at::kFloat)};
  for (const std::string name : {"swiglu", "gelu_tanh"}) {
    const LayerStory story = story_of(name);
    EXPECT_TRUE(at::allclose(story.ours(inputs), story.eager(inputs), 1e-6, 0, true));
  }
}

}  // namespace
}  // namespace zero::testing::exactness_test
