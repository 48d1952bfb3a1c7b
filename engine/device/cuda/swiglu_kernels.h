#pragma once
#include "engine/device/cuda/layer_block.h"
#include "engine/layers/swiglu_pass.h"

namespace zero {

// Those that do the same to each element: a thread has a group, or what is left of one.
template <class Own>
struct EachElement {
  int64_t numel = 0;

  bool takes_groups() const { return true; }
  int64_t num_blocks(int group) const {
    return (numel + kMaxThreads * group - 1) / (kMaxThreads * group);
  }
  int num_threads(int) const { return kMaxThreads; }

  template <int kNum, class Block>
  ZERO_IN_KERNEL void run(Block& block) const {
    const Own& own = static_cast<const Own&>(*this);
    block.each_thread([&](int thread) {
      const int64_t begin = (block.index * kMaxThreads + thread) * kNum;
      if (begin + kNum <= numel) return own.template give<kNum>(begin);
      for (int64_t i = begin; i < numel; ++i) own.template give<1>(i);
    });
  }
};

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
