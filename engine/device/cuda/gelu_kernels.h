#pragma once
#include "engine/device/cuda/each_element.h"
#include "engine/layers/gelu_pass.h"

namespace zero {

template <class T>
struct GeluKernel : EachElement<GeluKernel<T>, T, GeluPass<T>> {
  static constexpr const char* kName = "GELU";

  template <int kNum>
  ZERO_IN_KERNEL void give(int64_t i) const {
    const auto x = read_group<kNum>(this->pass.x + i);
    Group<T, kNum> y;
    for (int j = 0; j < kNum; ++j) gelu_element(x.values[j], y.values[j]);
    write_group(this->pass.y + i, y);
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(this->pass.x, this->numel), visit(this->pass.y, this->numel);
  }
};

template <class T>
struct GeluBackwardKernel : EachElement<GeluBackwardKernel<T>, T, GeluBackwardPass<T>> {
  static constexpr const char* kName = "GELU's gradient";

  template <int kNum>
  ZERO_IN_KERNEL void give(int64_t i) const {
    const auto grad = read_group<kNum>(this->pass.grad + i),
               x = read_group<kNum>(this->pass.x + i);
    Group<T, kNum> x_grad;
    for (int j = 0; j < kNum; ++j)
      gelu_gradient(grad.values[j], x.values[j], x_grad.values[j]);
    write_group(this->pass.x_grad + i, x_grad);
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(this->pass.grad, this->numel), visit(this->pass.x, this->numel);
    visit(this->pass.x_grad, this->numel);
  }
};

}  // namespace zero
