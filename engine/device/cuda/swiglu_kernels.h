#pragma once
#include "engine/device/cuda/each_element.h"
#include "engine/layers/swiglu_pass.h"

namespace zero {

template <class T>
struct SwiGluKernel : EachElement<SwiGluKernel<T>> {
  static constexpr const char* kName = "SwiGLU";
  static constexpr bool kSumsRows = false;
  static constexpr int kGroup = kGroupOf<T>;
  SwiGluPass<T> pass;

  SwiGluKernel(const SwiGluPass<T>& of, int64_t num)
      : EachElement<SwiGluKernel>{num}, pass(of) {}

  template <int kNum>
  ZERO_IN_KERNEL void give(int64_t i) const {
    const auto gate = read_group<kNum>(pass.gate + i), up = read_group<kNum>(pass.up + i);
    Group<T, kNum> y;
    for (int j = 0; j < kNum; ++j)
      swiglu_element(gate.values[j], up.values[j], y.values[j]);
    write_group(pass.y + i, y);
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(pass.gate, this->numel), visit(pass.up, this->numel);
    visit(pass.y, this->numel);
  }
};

template <class T>
struct SwiGluBackwardKernel : EachElement<SwiGluBackwardKernel<T>> {
  static constexpr const char* kName = "SwiGLU's gradients";
  static constexpr bool kSumsRows = false;
  static constexpr int kGroup = kGroupOf<T>;
  SwiGluBackwardPass<T> pass;

  SwiGluBackwardKernel(const SwiGluBackwardPass<T>& of, int64_t num)
      : EachElement<SwiGluBackwardKernel>{num}, pass(of) {}

  template <int kNum>
  ZERO_IN_KERNEL void give(int64_t i) const {
    const auto grad = read_group<kNum>(pass.grad + i);
    const auto gate = read_group<kNum>(pass.gate + i), up = read_group<kNum>(pass.up + i);
    Group<T, kNum> gate_grad, up_grad;
    for (int j = 0; j < kNum; ++j)
      swiglu_gradient(grad.values[j], gate.values[j], up.values[j], gate_grad.values[j],
                      up_grad.values[j]);
    write_group(pass.gate_grad + i, gate_grad);
    write_group(pass.up_grad + i, up_grad);
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(pass.grad, this->numel), visit(pass.gate, this->numel);
    visit(pass.up, this->numel), visit(pass.gate_grad, this->numel);
    visit(pass.up_grad, this->numel);
  }
};

}  // namespace zero
