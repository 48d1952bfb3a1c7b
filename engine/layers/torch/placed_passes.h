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
torch::autograd::variable_list run_elements(std::initializer_list<at::Tensor> in) {
  const at::Tensor& first = *in.begin();
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

const GpuPasses* gpu_passes();                      // null where that library is not
void* current_stream_of(const at::Tensor& tensor);  // of its GPU, as its driver knows it

template <class Pass>
void queue_pass(const at::Tensor& x, const Pass& pass, int64_t numel) {
  const c10::DeviceGuard its_gpu(x.device());
  gpu_passes()->queue(pass, numel, current_stream_of(x));
}

}  // namespace zero
