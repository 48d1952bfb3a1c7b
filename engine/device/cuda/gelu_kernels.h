#pragma once
#include "engine/device/cuda/each_element.h"
#include "engine/layers/gelu_pass.h"

namespace zero {

template <class T>
struct GeluKernel : EachElement<GeluKernel<T>> {
  static constexpr const char* kName = "GELU";
  static constexpr bool kSumsRows = false;
  static constexpr int kGroup = kGroupOf<T>;
  GeluPass<T> pass;

  GeluKernel(const GeluPass<T>& of, int64_t num)
      : EachElement<GeluKernel>{num}, pass(of) {}

  template <int kNum>
  ZERO_IN_KERNEL void give(int64_t i) const {
    const auto x = read_group<kNum>(pass.x + i);
    Group<T, kNum> y;
    for (int j = 0; j < kNum; ++j) gelu_element(x.values[j], y.values[j]);
    write_group(pass.y + i, y);
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(pass.x, this->numel), visit(pass.y, this->numel);
  }
};

template <class T>
struct GeluBackwardKernel : EachElement<GeluBackwardKernel<T>> {
  static constexpr const char* kName = "GELU's gradient";
  static constexpr bool kSumsRows = false;
  static constexpr int kGroup = kGroupOf<T>;
  GeluBackwardPass<T> pass;

  GeluBackwardKernel(const GeluBackwardPass<T>& of, int64_t num)
      : EachElement<GeluBackwardKernel>{num}, pass(of) {}

  template <int kNum>
  ZERO_IN_KERNEL void give(int64_t i) const {
    const auto grad = read_group<kNum>(pass.grad + i), x = read_group<kNum>(pass.x + i);
    Group<T, kNum> x_grad;
    for (int j = 0; j < kNum; ++j)
      gelu_gradient(grad.values[j], x.values[j], x_grad.values[j]);
    write_group(pass.x_grad + i, x_grad);
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(pass.grad, this->numel), visit(pass.x, this->numel);
    visit(pass.x_grad, this->numel);
  }
};

}  // namespace zero
