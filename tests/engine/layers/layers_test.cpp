// What holds for each function of zero/layers.h.
#include "zero/layers.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <tuple>

#include "engine/layers/torch/eager.h"
#include "tests/engine/layers/layer_story.h"

namespace zero::testing::layers_test {
namespace {

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble};

class Layers : public ::testing::TestWithParam<LayerStory> {
 protected:
  void SetUp() override { at::manual_seed(3); }

  // Of the first so many inputs, with a result that each element has a say in.
  Tensors gradients(const LayerFunction& function, const Tensors& inputs) {
    return gradients_of(function, inputs, story.num_needed);
  }

  const LayerStory& story = GetParam();
};

// The slope of the loss in gradients_of(), element by element.
at::Tensor slopes(const LayerFunction& function, const Tensors& inputs, size_t which) {
  const auto loss = [&] {
    const at::Tensor y = function(inputs);
    return (y * at::sin(at::arange(y.numel(), at::kDouble)).view(y.sizes()))
        .sum()
        .item<double>();
  };
  const at::Tensor found = at::empty(inputs[which].sizes(), at::kDouble);
  double* out = found.data_ptr<double>();
  const at::Tensor flat = inputs[which].view({-1});
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const double before = flat[i].item<double>(), by = 1e-5;
    flat[i] = before + by;
    const double above = loss();
    flat[i] = before - by;
    out[i] = (above - loss()) / (2 * by);
    flat[i] = before;
  }
  return found;
}

TEST_P(Layers, GradientsAreTheSlopes) {
  Tensors inputs = story.inputs(3, 5);
  for (at::Tensor& input : inputs) input = input.contiguous();
  const Tensors found = gradients(story.ours, inputs);
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(at::allclose(found[i], slopes(story.ours, inputs, i), 1e-6, 1e-8)) << i;
}

TEST_P(Layers, GiveWhatTheExpressionGives) {
  for (const auto& [rows, width] :
       {std::pair(1, 1), {7, 31}, {3, 32}, {5, 33}, {40, 100}}) {
    const Tensors inputs = story.inputs(rows, width);
    EXPECT_TRUE(at::allclose(story.ours(inputs), story.eager(inputs), 1e-12, 1e-14));
    const Tensors ours = gradients(story.ours, inputs);
    const Tensors eager = gradients(story.eager, inputs);
    for (size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(at::allclose(ours[i], eager[i], 1e-11, 1e-13)) << i;
  }
}

TEST_P(Layers, KeepTypeAndSizes) {
  for (const at::ScalarType type : kTypes) {
    const Tensors inputs = in_type(story.inputs(4, 6), type);
    const at::Tensor y = story.ours(inputs);
    EXPECT_EQ(y.scalar_type(), type);
    EXPECT_EQ(y.sizes(), inputs[0].sizes());
    EXPECT_EQ(y.strides(), inputs[0].strides()) << "another layout costs a copy";
  }
}

TEST_P(Layers, GiveTheSameBitsOnTwoThreads) {
  const int before = at::get_num_threads();
  for (const at::ScalarType type : kTypes) {
    const Tensors inputs = in_type(story.inputs(700, 200), type);
    std::vector<Tensors> found;
    for (const int threads : {1, 2}) {
      at::set_num_threads(threads);
      found.push_back(gradients(story.ours, inputs));
      found.back().push_back(story.ours(inputs));
    }
    EXPECT_TRUE(same_bits(found[0], found[1])) << type;
  }
  at::set_num_threads(before);
}

TEST_P(Layers, GiveTheSameBitsWithoutAGraph) {
  Tensors inputs = in_type(story.inputs(5, 40), at::kFloat);
  const at::Tensor plain = story.ours(inputs);
  EXPECT_FALSE(plain.requires_grad());
  for (size_t i = 0; i < story.num_needed; ++i) inputs[i].requires_grad_();
  EXPECT_TRUE(same_bits(plain, story.ours(inputs)));
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(same_bits(plain, story.ours(inputs)));
  EXPECT_FALSE(story.ours(inputs).requires_grad());
}

TEST_P(Layers, GiveOneGradientWhereOneIsNeeded) {
  const Tensors inputs = in_type(story.inputs(37, 40), at::kFloat);
  const Tensors all = gradients(story.ours, inputs);
  for (size_t i = 0; i < story.num_needed; ++i) {
    Tensors leaves = inputs;
    leaves[i] = inputs[i].detach().requires_grad_();
    const at::Tensor y = story.ours(leaves);
    const at::Tensor weights = at::sin(at::arange(y.numel(), at::kDouble));
    y.backward(weights.view(y.sizes()).to(at::kFloat));
    EXPECT_TRUE(same_bits(leaves[i].grad(), all[i])) << i;
  }
}

// Every second element, a part of a row, the same row again and again.
TEST_P(Layers, TakeViews) {
  const Tensors inputs = in_type(story.inputs(6, 8), at::kFloat);
  const at::Tensor &x = inputs[0], expected = story.ours(inputs);
  const at::Tensor sparse = at::stack({x, -x}, -1).select(-1, 0);
  const at::Tensor part = at::cat({x, -x}, -1).narrow(-1, 0, x.size(-1));
  const at::Tensor turned = x.transpose(0, 1).contiguous().transpose(0, 1);
  for (const at::Tensor& view : {sparse, part, turned}) {
    Tensors views = inputs;
    views[0] = view;
    EXPECT_TRUE(same_bits(story.ours(views), expected)) << view.strides();
    EXPECT_TRUE(same_bits(gradients(story.ours, views), gradients(story.ours, inputs)));
  }
  Tensors same = inputs, copied = inputs;
  same[0] = x.narrow(0, 0, 1).expand_as(x);
  copied[0] = same[0].contiguous();
  EXPECT_TRUE(same_bits(story.ours(same), story.ours(copied)));
}

TEST_P(Layers, TakeGradientsOfAnyLayout) {
  Tensors inputs = in_type(story.inputs(6, 8), at::kFloat);
  inputs[0].requires_grad_();
  const at::Tensor y = story.ours(inputs), one = at::ones({}, at::kFloat);
  const auto gradient = [&](const at::Tensor& grad) {
    return torch::autograd::grad({y}, {inputs[0]}, {grad}, /*retain_graph=*/true)[0];
  };
  const at::Tensor expected = gradient(at::ones(y.sizes(), at::kFloat));
  EXPECT_TRUE(same_bits(gradient(one.expand_as(y)), expected));
  const at::Tensor odd = at::ones({2 * y.size(-1)}, at::kFloat).slice(0, 0, -1, 2);
  EXPECT_TRUE(same_bits(gradient(odd.slice(0, 0, y.size(-1)).expand_as(y)), expected));
}

TEST_P(Layers, TakeTensorsWithoutElements) {
  Tensors inputs = in_type(story.inputs(0, 8), at::kFloat);
  EXPECT_EQ(story.ours(inputs).sizes(), inputs[0].sizes());
  inputs[0].requires_grad_();
  story.ours(inputs).sum().backward();
  EXPECT_EQ(inputs[0].grad().sizes(), inputs[0].sizes());
}

TEST_P(Layers, TakeTensorsWithoutMemory) {
  Tensors inputs = in_type(story.inputs(3, 8), at::kFloat);
  for (at::Tensor& input : inputs) input = input.to(at::kMeta);
  EXPECT_EQ(story.ours(inputs).sizes(), inputs[0].sizes());
}

TEST_P(Layers, TakeSeveralTypes) {
  Tensors inputs = in_type(story.inputs(3, 8), at::kFloat);
  if (inputs.size() == 1) return;
  inputs[1] = inputs[1].to(at::kBFloat16);
  EXPECT_TRUE(same_bits(story.ours(inputs), story.eager(inputs)));
}

TEST_P(Layers, DoUnderAutocastWhatTheExpressionDoes) {
  const Tensors inputs = in_type(story.inputs(3, 8), at::kFloat);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor ours = story.ours(inputs), eager = story.eager(inputs);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_TRUE(same_bits(ours, eager));
}

TEST_P(Layers, HaveSecondDerivatives) {
  const Tensors inputs = story.inputs(4, 6);
  const auto second = [&](const LayerFunction& function) {
    Tensors leaves = inputs;
    leaves[0] = inputs[0].detach().requires_grad_();
    if (story.num_needed > 1) leaves[1] = inputs[1].detach().requires_grad_();
    const at::Tensor grad = at::ones_like(inputs[0]).requires_grad_();
    const at::Tensor y = function(leaves);
    const at::Tensor first =
        torch::autograd::grad({y}, {leaves[0]}, {grad}, true, /*create_graph=*/true)[0];
    return torch::autograd::grad({first.square().sum()}, {grad})[0];
  };
  EXPECT_TRUE(at::allclose(second(story.ours), second(story.eager), 1e-11, 1e-13));
}

// The others made of the first: what flows through them is their own history's.
TEST_P(Layers, HaveSecondDerivativesWhereOneInputIsMadeOfAnother) {
  const Tensors given = story.inputs(4, 6);
  const auto second = [&](const LayerFunction& function) {
    Tensors inputs = given;
    const at::Tensor leaf = inputs[0].detach().requires_grad_();
    inputs[0] = leaf * 2;
    for (size_t i = 1; i < inputs.size(); ++i) {
      if (inputs[i].sizes() == leaf.sizes())
        inputs[i] = inputs[0].sin();
      else if (inputs[i].is_floating_point())
        inputs[i] = inputs[i] + inputs[0].sum();
    }
    const at::Tensor y = function(inputs);
    const at::Tensor grad = torch::autograd::grad({y.square().sum()}, {leaf}, {}, true,
                                                  /*create_graph=*/true)[0];
    return torch::autograd::grad({grad.square().sum()}, {leaf})[0];
  };
  EXPECT_TRUE(at::allclose(second(story.ours), second(story.eager), 1e-9, 1e-11));
}

// The node of a call alone would hold it.
TEST_P(Layers, KeepNoResult) {
  Tensors inputs = in_type(story.inputs(3, 8), at::kFloat);
  inputs[0].requires_grad_();
  at::Tensor y = story.ours(inputs);
  const c10::weak_intrusive_ptr<c10::StorageImpl> storage(
      y.storage().getWeakStorageImpl());
  const at::Tensor loss = y.sum();
  y.reset();
  EXPECT_TRUE(storage.expired());
  loss.backward();
}

// The norm's node is asked for gradients of what it gave, and of what it was given.
TEST(AddRmsNorm, HasSecondDerivativesOfAllItWasGiven) {
  const auto second = [](bool at_once) {
    at::manual_seed(4);
    Tensors in{at::randn({4, 6}, at::kDouble), at::randn({4, 6}, at::kDouble),
               at::rand({6}, at::kDouble)};
    for (at::Tensor& leaf : in) leaf.requires_grad_();
    const auto [total, y] =
        at_once ? add_rms_norm(in[0], in[1], in[2], 1e-5)
                : std::pair(in[0] + in[1], eager::rms_norm(in[0] + in[1], in[2], 1e-5));
    const Tensors first = torch::autograd::grad({(total.sin() * y).sum()}, in, {}, true,
                                                /*create_graph=*/true);
    at::Tensor sum = first[0].square().sum() + first[1].sum() + first[2].square().sum();
    return torch::autograd::grad({sum}, in);
  };
  const Tensors ours = second(true), expected = second(false);
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(at::allclose(ours[i], expected[i], 1e-9, 1e-11)) << i;
}

// Where only one of the two is used, too.
TEST(AddRmsNorm, HasTheBitsOfASumAndItsNorm) {
  at::manual_seed(4);
  for (const at::ScalarType type : kTypes) {
    const Tensors inputs =
        in_type({at::randn({70, 33}), at::randn({70, 33}), at::rand({33})}, type);
    for (const auto& [of_total, of_norm] : {std::pair(1., 1.), {3., 0.}, {0., 2.}}) {
      const auto used = [&](const at::Tensor& total, const at::Tensor& y) {
        return of_total == 0  ? y * of_norm
               : of_norm == 0 ? total * of_total
                              : at::cat({total.sin(), y}, -1);
      };
      const LayerFunction at_once = [&](const Tensors& in) {
        const auto [total, y] = add_rms_norm(in[0], in[1], in[2], 1e-5);
        return used(total, y);
      };
      const LayerFunction apart = [&](const Tensors& in) {
        const at::Tensor total = in[0] + in[1];
        return used(total, rms_norm(total, in[2], 1e-5));
      };
      EXPECT_TRUE(same_bits(at_once(inputs), apart(inputs))) << type;
      const size_t num_needed = of_norm == 0 ? 2 : 3;
      EXPECT_TRUE(same_bits(gradients_of(at_once, inputs, num_needed),
                            gradients_of(apart, inputs, num_needed)))
          << type << " " << of_total << " " << of_norm;
    }
  }
}

TEST(AddRmsNorm, RepeatsWhatIsAddedAsASumDoes) {
  const at::Tensor x = at::randn({4, 6}), row = at::randn({6}), weight = at::rand({6});
  const auto [total, y] = add_rms_norm(x, row, weight, 1e-5);
  EXPECT_TRUE(same_bits(total, x + row));
  EXPECT_TRUE(same_bits(y, eager::rms_norm(x + row, weight, 1e-5)));
}

TEST(SwiGlu, TakesTwoLayoutsAtOnce) {
  at::manual_seed(5);
  const at::Tensor gate = at::randn({3, 4, 8}), x = at::randn({3, 4, 8});
  const Tensors mixed = {gate, x.transpose(0, 1).contiguous().transpose(0, 1)};
  const Tensors plain = {gate, x};
  const LayerFunction function = [](const Tensors& in) { return swiglu(in[0], in[1]); };
  EXPECT_TRUE(same_bits(function(mixed), function(plain)));
  EXPECT_TRUE(
      same_bits(gradients_of(function, mixed, 2), gradients_of(function, plain, 2)));
}

INSTANTIATE_TEST_SUITE_P(All, Layers, ::testing::ValuesIn(layer_stories()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace zero::testing::layers_test
