#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "engine/layers/elements.h"

namespace zero {

// swiglu() of elements that lie end to end.
template <class T>
struct SwiGluPass {
  const T *gate, *up;
  T* y;

  [[gnu::always_inline]] void run(int64_t begin, int64_t end) const {
    const T* __restrict gates = gate;
    const T* __restrict ups = up;
    T* __restrict out = y;
    for (int64_t i = begin; i < end; ++i) swiglu_element(gates[i], ups[i], out[i]);
  }
};

// Both gradients.
template <class T>
struct SwiGluBackwardPass {
  const T *grad, *gate, *up;
  T *gate_grad, *up_grad;

  [[gnu::always_inline]] void run(int64_t begin, int64_t end) const {
    const T* __restrict given = grad;
    const T* __restrict gates = gate;
    const T* __restrict ups = up;
    T* __restrict gate_out = gate_grad;
    T* __restrict up_out = up_grad;
    for (int64_t i = begin; i < end; ++i)
      swiglu_gradient(given[i], gates[i], ups[i], gate_out[i], up_out[i]);
  }
};

}  // namespace zero
