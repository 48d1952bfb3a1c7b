#include "tests/engine/layers/layer_story.h"

#include "engine/layers/torch/eager.h"
#include "zero/layers.h"

namespace zero::testing {
namespace {

at::Tensor random(at::IntArrayRef sizes) {
  return at::randn(sizes, at::TensorOptions(at::kDouble));
}

LayerStory of_rows() {
  return {"rms_norm", [](const Tensors& in) { return rms_norm(in[0], in[1], 1e-5); },
          [](const Tensors& in) { return eager::rms_norm(in[0], in[1], 1e-5); },
          [](int64_t rows, int64_t width) {
            return Tensors{random({rows, width}), 1 + random({width}) / 4};
          },
          2};
}

LayerStory of_sums() {
  return {"add_rms_norm",
          [](const Tensors& in) {
            const auto [total, y] = add_rms_norm(in[0], in[1], in[2], 1e-5);
            return total + y;
          },
          [](const Tensors& in) {
            const at::Tensor total = in[0] + in[1];
            return total + eager::rms_norm(total, in[2], 1e-5);
          },
          [](int64_t rows, int64_t width) {
            return Tensors{random({rows, width}), random({rows, width}),
                           1 + random({width}) / 4};
          },
          3};
}

LayerStory of_gates() {
  return {"swiglu", [](const Tensors& in) { return swiglu(in[0], in[1]); },
          [](const Tensors& in) { return eager::swiglu(in[0], in[1]); },
          [](int64_t rows, int64_t width) {
            return Tensors{random({rows, width}) * 3, random({rows, width})};
          },
          2};
}

LayerStory of_gelu() {
  return {"gelu_tanh", [](const Tensors& in) { return gelu_tanh(in[0]); },
          [](const Tensors& in) { return eager::gelu_tanh(in[0]); },
          [](int64_t rows, int64_t width) {
            return Tensors{random({rows, width}) * 3};
          },
          1};
}

// Two samples of three heads, laid out position by position; the head's last value is
// not turned.
using Rotate = at::Tensor(const at::Tensor& x, const at::Tensor& cos,
                          const at::Tensor& sin);
LayerStory of_heads(const std::string& name, Rotate* ours, Rotate* eager) {
  return {name, [=](const Tensors& in) { return ours(in[0], in[1], in[2]); },
          [=](const Tensors& in) { return eager(in[0], in[1], in[2]); },
          [](int64_t rows, int64_t width) {
            const at::Tensor turns = random({rows, width});
            return Tensors{random({2, rows, 3, 2 * width + 1}).transpose(1, 2),
                           turns.cos(), turns.sin()};
          },
          1};
}

// Of rows that have positions of their own.
LayerStory of_rows_of_heads(const std::string& name, Rotate* ours, Rotate* eager) {
  LayerStory story = of_heads(name, ours, eager);
  story.inputs = [](int64_t rows, int64_t width) {
    const at::Tensor turns = random({2, rows, width});
    return Tensors{random({2, rows, 3, 2 * width + 1}).transpose(1, 2), turns.cos(),
                   turns.sin()};
  };
  return story;
}

// In the order of the values.
at::Tensor ordinals_of(const at::Tensor& values) {
  const bool is_fp32 = values.scalar_type() == at::kFloat;
  const at::Tensor bits = values.contiguous().view(is_fp32 ? at::kInt : at::kShort);
  const int64_t lowest = is_fp32 ? -(int64_t{1} << 31) : -(int64_t{1} << 15);
  const at::Tensor whole = bits.to(at::kLong);
  return at::where(whole < 0, lowest - whole, whole);
}

}  // namespace

std::vector<LayerStory> layer_stories() {
  return {of_rows(),
          of_sums(),
          of_gates(),
          of_gelu(),
          of_heads("rotate_halves", rotate_halves, eager::rotate_halves),
          of_heads("rotate_pairs", rotate_pairs, eager::rotate_pairs),
          of_rows_of_heads("rotate_halves_of_rows", rotate_halves, eager::rotate_halves),
          of_rows_of_heads("rotate_pairs_of_rows", rotate_pairs, eager::rotate_pairs)};
}

Tensors in_type(const Tensors& inputs, at::ScalarType type) {
  Tensors result;
  for (const at::Tensor& input : inputs) result.push_back(input.detach().to(type));
  return result;
}

Tensors on_device(const Tensors& inputs, c10::Device device) {
  Tensors result;
  for (const at::Tensor& input : inputs) result.push_back(input.detach().to(device));
  return result;
}

Tensors gradients_of(const LayerFunction& function, const Tensors& inputs,
                     size_t num_needed) {
  Tensors leaves = inputs;
  for (at::Tensor& leaf : leaves) leaf = leaf.detach();
  for (size_t i = 0; i < num_needed; ++i) leaves[i].requires_grad_();
  const at::Tensor y = function(leaves);
  const at::Tensor weights =
      at::sin(at::arange(y.numel(), at::kDouble)).view(y.sizes()).to(y.options());
  Tensors needed(leaves.begin(),
                 leaves.begin() + static_cast<std::ptrdiff_t>(num_needed));
  return torch::autograd::grad({y}, needed, {weights});
}

int64_t ulps_between(const at::Tensor& a, const at::Tensor& b) {
  return (ordinals_of(a) - ordinals_of(b)).abs().max().item<int64_t>();
}

double error_of(const at::Tensor& value, const at::Tensor& exact) {
  return (value.to(at::kCPU, at::kDouble) - exact).norm().item<double>();
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) { return torch::equal(a, b); }

bool same_bits(const Tensors& a, const Tensors& b) {
  return std::ranges::equal(
      a, b, [](const at::Tensor& x, const at::Tensor& y) { return same_bits(x, y); });
}

}  // namespace zero::testing
