#pragma once

#include <torch/csrc/autograd/functions/utils.h>
#include <torch/torch.h>

#include <algorithm>
#include <initializer_list>

#include "engine/layers/kernels.h"
#include "offload/float_environment.h"

#if AT_PARALLEL_OPENMP && !defined(_OPENMP)
#error "at::parallel_for() is a plain loop here: compile with -fopenmp"
#endif

// Between tensors and the passes over their elements.
namespace zero {

// May passes of ours compute on them? If all are plain tensors of the host's memory, of
// one type that passes have, with elements, and nothing but autograd listens to what is
// done to them: neither autocast nor forward derivatives nor transforms.
bool are_plain(std::initializer_list<at::Tensor> tensors);
// The same of tensors on one device of this type.
bool are_plain_on(c10::DeviceType device, std::initializer_list<at::Tensor> tensors);

// What is summed and computed in: fp32, of fp64 fp64.
at::ScalarType wide_type(const at::Tensor& tensor);

// Itself where its elements lie end to end, in whatever order of its dimensions, and the
// last dimension's beside each other; else a copy.
at::Tensor end_to_end(const at::Tensor& tensor);

// With the strides of `like`, of the same sizes.
at::Tensor laid_out_as(const at::Tensor& like, const at::Tensor& tensor);

template <class T>
T* elements_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.data_ptr()) : nullptr;
}
template <class T>
const T* const_elements_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<const T*>(tensor.const_data_ptr()) : nullptr;
}

// As operators take what may be undefined.
inline std::optional<at::Tensor> maybe(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

// Call work.template operator()<T>() for the type of elements.
template <class Work>
void for_type(at::ScalarType type, const Work& work) {
  if (type == at::kFloat) return work.template operator()<float>();
  if (type == at::kBFloat16) return work.template operator()<Bf16>();
  if (type == at::kHalf) return work.template operator()<Fp16>();
  work.template operator()<double>();
}

// Run it on LibTorch's threads: `numel` items, of each so many elements.
template <class Pass>
void run_pass(const Pass& pass, int64_t numel, int64_t elements) {
  const int64_t grain = std::max<int64_t>(1, at::internal::GRAIN_SIZE / elements);
  at::parallel_for(0, numel, grain, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment same_on_all_threads;
    fastest_layer_kernels().run(pass, begin, end);
  });
}

// Gradients of expression(inputs) with respect to `inputs`, with a graph where autograd
// makes one: undefined for inputs that need none. The expression is given aliases: an
// input may be made of another, whose gradient flows through it elsewhere.
template <class Expression>
torch::autograd::variable_list expression_gradients(
    const torch::autograd::variable_list& inputs, const at::Tensor& grad,
    const Expression& expression) {
  const bool makes_graph = torch::GradMode::is_enabled();
  const torch::AutoGradMode with_grad(true);
  torch::autograd::variable_list aliases, needed;
  for (const at::Tensor& input : inputs) {
    aliases.push_back(input.view_as(input));
    if (input.requires_grad()) needed.push_back(aliases.back());
  }
  const auto found = torch::autograd::grad({expression(aliases)}, needed, {grad},
                                           /*retain_graph=*/true, makes_graph);
  torch::autograd::variable_list grads;
  auto next = found.begin();
  for (const at::Tensor& input : inputs)
    grads.push_back(input.requires_grad() ? *next++ : at::Tensor());
  return grads;
}

}  // namespace zero
