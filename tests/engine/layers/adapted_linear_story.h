#pragma once
#include "tests/engine/layers/layer_story.h"
#include "zero/linear.h"
#include "zero/lora.h"

namespace zero::testing {

// A frozen layer (17 to 11) of a type with an adapter of rank 3, and what it stands for.
class AdaptedStory {
 public:
  explicit AdaptedStory(at::ScalarType type, c10::Device device = c10::kCPU,
                        double dropout = 0, bool has_bias = true)
      : layer(17, 11, has_bias) {
    torch::nn::Sequential held(layer);
    layer->to(device, type);
    add_lora(*held, {.r = 3, .alpha = 2, .dropout = dropout});
    const auto factor = [&](const std::string& name) {
      const at::Tensor values = layer->named_parameters()[name + ".weight"];
      values.set_data(at::randn(values.sizes())
                          .div_(5)
                          .to(device, at::promote_types(type, at::kFloat)));
      return values;
    };
    a = factor("lora_A");
    b = factor("lora_B");
  }

  at::Tensor ours(const at::Tensor& x) { return layer->forward(x); }
  // With `kept`, what dropout leaves of x.
  at::Tensor expression(const at::Tensor& x, const at::Tensor& kept = {}) const {
    const at::Tensor seen = kept.defined() ? x * kept : x;
    const at::Tensor low = at::linear(seen.to(a.scalar_type()), a) * layer->lora_scale();
    const at::Tensor y = at::linear(x, layer->weight, layer->bias);
    return (y + at::linear(low, b)).to(y.scalar_type());
  }

  // What each element of a result weighs in a loss: in all types the same.
  static at::Tensor weights_of(const at::Tensor& y) {
    return at::sin(at::arange(y.numel(), at::kDouble))
        .view(y.sizes())
        .to(at::kBFloat16)
        .to(y.options());
  }

  // Gradients of x and of both factors, of a loss that weighs each element; the result.
  template <class Function>
  Tensors all_of(const Function& function, const at::Tensor& x) const {
    const at::Tensor leaf = x.detach().requires_grad_();
    const at::Tensor y = function(leaf);
    Tensors all = torch::autograd::grad({y}, {leaf, a, b}, {weights_of(y)});
    all.push_back(y.detach());
    return all;
  }
  Tensors all_of_ours(const at::Tensor& x) {
    return all_of([this](const at::Tensor& leaf) { return ours(leaf); }, x);
  }
  Tensors all_of_expression(const at::Tensor& x, const at::Tensor& kept = {}) const {
    return all_of([&](const at::Tensor& leaf) { return expression(leaf, kept); }, x);
  }

  // The same values in fp64 on the host.
  AdaptedStory exact() const {
    AdaptedStory wide(at::kDouble, c10::kCPU, 0, layer->bias.defined());
    const torch::NoGradGuard no_grad;
    wide.layer->weight.copy_(layer->weight);
    if (layer->bias.defined()) wide.layer->bias.copy_(layer->bias);
    wide.a.copy_(a);
    wide.b.copy_(b);
    return wide;
  }

  Linear layer;
  at::Tensor a, b;
};

}  // namespace zero::testing
