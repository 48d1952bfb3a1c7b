#pragma once
#include "engine/device/cuda/cross_entropy_kernels.h"
#include "engine/device/cuda/each_element.h"
#include "engine/device/cuda/norm_kernels.h"
#include "engine/device/cuda/rotate_kernel.h"
#include "engine/layers/gpu_passes.h"

// Which kernel runs which pass.
namespace zero {

template <class T>
RmsNormKernel<T> kernel_of(const RmsNormPass<T>& pass, int64_t num_rows) {
  return {pass, num_rows};
}
template <class T>
RmsNormBackwardKernel<T> kernel_of(const RmsNormBackwardPass<T>& pass, int64_t blocks) {
  return {pass, blocks};
}
template <class T>
SumBlocksKernel<T> kernel_of(const SumBlocksPass<T>& pass, int64_t) {
  return {pass};
}
template <class T, class F>
EachElement<T, F> kernel_of(const ElementPass<T, F>& pass, int64_t numel) {
  return {pass, numel};
}
template <class T>
CrossEntropyKernel<T> kernel_of(const CrossEntropyPass<T>& pass, int64_t num_rows) {
  return {pass, num_rows};
}
inline SumLossesKernel kernel_of(const SumLossesPass& pass, int64_t) { return {pass}; }
template <class T>
CrossEntropyBackwardKernel<T> kernel_of(const CrossEntropyBackwardPass<T>& pass,
                                        int64_t num_rows) {
  return {pass, num_rows};
}
template <class T, Pairs kPairs>
RotateKernel<T, kPairs> kernel_of(const RotatePass<T, kPairs>& pass, int64_t positions) {
  return {pass, positions};
}

// All of them, by who queues a kernel: Launcher::launch(kernel, stream).
template <class Launcher>
GpuPasses gpu_passes_of() {
  const auto all = []<class... Passes>(std::type_identity<QueuePasses<Passes...>>) {
    return GpuPasses{{+[](const Passes& pass, int64_t numel, void* stream) {
      if (numel > 0) Launcher::launch(kernel_of(pass, numel), stream);
    }...}};
  };
  return all(std::type_identity<GpuPasses::Queues>());
}

}  // namespace zero
