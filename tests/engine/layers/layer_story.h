#pragma once
#include <torch/torch.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace zero::testing {

using Tensors = std::vector<at::Tensor>;

// One function of zero/layers.h, beside the expression that it stands for.
struct LayerStory {
  std::string name;
  std::function<at::Tensor(const Tensors&inputs)> ours, eager;
  // Its inputs in fp64: so many rows of a small width; and how many need gradients.
  std::function<Tensors(int64_t rows, int64_t width)> inputs;
  size_t num_needed;
};
inline std::ostream& operator<<(std::ostream& out, const LayerStory& story) {
  return out << story.name;
}

std::vector<LayerStory> layer_stories();

using LayerFunction = std::function<at::Tensor(const Tensors& inputs)>;

// Copies of another type, or elsewhere.
Tensors in_type(const Tensors& inputs, at::ScalarType type);
Tensors on_device(const Tensors& inputs, c10::Device device);

// Gradients of the first `num_needed` inputs, of a loss that weighs each element.
Tensors gradients_of(const LayerFunction& function, const Tensors& inputs,
                     size_t num_needed);

// The most values of their type that lie between two elements.
int64_t ulps_between(const at::Tensor& a, const at::Tensor& b);

// How far a value is from one in fp64 on the host, all elements together.
double error_of(const at::Tensor& value, const at::Tensor& exact);

bool same_bits(const at::Tensor& a, const at::Tensor& b);
bool same_bits(const Tensors& a, const Tensors& b);

}  // namespace zero::testing
