#pragma once
#include "engine/device/cuda/each_element.h"
#include "engine/layers/swiglu_pass.h"

namespace zero {

template <class T>
struct SwiGluKernel : EachElement<SwiGluKernel<T>, T, SwiGluPass<T>> {
  static constexpr const char* kName = "SwiGLU";

  template <int kNum>
  ZERO_IN_KERNEL void give(int64_t i) const {
    const auto gate = read_group<kNum>(this->pass.gate + i),
               up = read_group<kNum>(this->pass.up + i);
    Group<T, kNum> y;
    for (int j = 0; j < kNum; ++j)
      swiglu_element(gate.values[j], up.values[j], y.values[j]);
    write_group(this->pass.y + i, y);
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(this->pass.gate, this->numel), visit(this->pass.up, this->numel);
    visit(this->pass.y, this->numel);
  }
};

template <class T>
struct SwiGluBackwardKernel
    : EachElement<SwiGluBackwardKernel<T>, T, SwiGluBackwardPass<T>> {
  static constexpr const char* kName = "SwiGLU's gradients";

  template <int kNum>
  ZERO_IN_KERNEL void give(int64_t i) const {
    const auto grad = read_group<kNum>(this->pass.grad + i);
    const auto gate = read_group<kNum>(this->pass.gate + i),
               up = read_group<kNum>(this->pass.up + i);
    Group<T, kNum> gate_grad, up_grad;
    for (int j = 0; j < kNum; ++j)
      swiglu_gradient(grad.values[j], gate.values[j], up.values[j], gate_grad.values[j],
                      up_grad.values[j]);
    write_group(this->pass.gate_grad + i, gate_grad);
    write_group(this->pass.up_grad + i, up_grad);
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(this->pass.grad, this->numel), visit(this->pass.gate, this->numel);
    visit(this->pass.up, this->numel), visit(this->pass.gate_grad, this->numel);
    visit(this->pass.up_grad, this->numel);
  }
};

}  // namespace zero
