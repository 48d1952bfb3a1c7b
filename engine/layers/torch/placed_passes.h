#pragma once

#include "engine/layers/gpu_passes.h"
#include "engine/layers/torch/passes.h"

// Passes where their tensors are: on the host's threads, or on a GPU.
namespace zero {

// May passes of ours compute on them? If they are plain (passes.h), or are that on one
// GPU, are not of fp64, and the library for GPUs is there.
bool passes_take(std::initializer_list<at::Tensor> tensors);

// Queue it in LibTorch's current stream of x's GPU.
template <class Pass>
void queue_pass(const at::Tensor& x, const Pass& pass, int64_t numel);

// run_pass(), or the same items on x's GPU. passes_take() what it works on.
template <class Pass>
void run_pass_at(const at::Tensor& x, const Pass& pass, int64_t numel, int64_t elements) {
  if constexpr (GpuPasses::kHave<Pass>)
    if (!x.is_cpu()) return queue_pass(x, pass, numel);
  run_pass(pass, numel, elements);
}

// What F makes of elements (element_pass.h) that lie in the same order in all of `in`.
template <class F>
torch::autograd::variable_list run_elements(const torch::autograd::variable_list& in) {
  const at::Tensor& first = in[0];
  torch::autograd::variable_list out;
  while (out.size() < F::kOut) out.push_back(at::empty_like(first));
  for_type(first.scalar_type(), [&]<class T>() {
    ElementPass<T, F> pass;
    std::transform(in.begin(), in.end(), pass.in, const_elements_of<T>);
    std::transform(out.begin(), out.end(), pass.out, elements_of<T>);
    run_pass_at(first, pass, first.numel(), 1);
  });
  return out;
}

// The same as a function with gradients: what Backward makes of the result's gradient and
// the elements. Where they shall have a graph, or passes do not take that gradient, they
// are those of kExpression(in), which computes the same.
template <class F, class Backward, auto kExpression>
struct ElementFunction
    : torch::autograd::Function<ElementFunction<F, Backward, kExpression>> {
  using Context = torch::autograd::AutogradContext;
  using Tensors = torch::autograd::variable_list;

  template <class... Tensor>
  static at::Tensor forward(Context* context, const Tensor&... in) {
    context->save_for_backward({in...});
    return run_elements<F>({in...})[0];
  }

  static Tensors backward(Context* context, Tensors grad) {
    Tensors in = context->get_saved_variables();
    if (torch::GradMode::is_enabled() || !passes_take({grad[0]}))
      return expression_gradients(in, grad[0], kExpression);
    in.insert(in.begin(), laid_out_as(in[0], grad[0]));
    return run_elements<Backward>(in);
  }
};

const GpuPasses* gpu_passes();                      // null where that library is not
void* current_stream_of(const at::Tensor& tensor);  // of its GPU, as its driver knows it

template <class Pass>
void queue_pass(const at::Tensor& x, const Pass& pass, int64_t numel) {
  const c10::DeviceGuard its_gpu(x.device());
  gpu_passes()->queue(pass, numel, current_stream_of(x));
}

}  // namespace zero
