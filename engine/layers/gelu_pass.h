#pragma once

#include <cstdint>

#include "engine/layers/elements.h"

namespace zero {

// gelu_tanh() of elements that lie end to end.
template <class T>
struct GeluPass {
  const T* x;
  T* y;

  [[gnu::always_inline]] void run(int64_t begin, int64_t end) const {
    const T* __restrict in = x;
    T* __restrict out = y;
    for (int64_t i = begin; i < end; ++i) gelu_element(in[i], out[i]);
  }
};

template <class T>
struct GeluBackwardPass {
  const T *grad, *x;
  T* x_grad;

  [[gnu::always_inline]] void run(int64_t begin, int64_t end) const {
    const T* __restrict given = grad;
    const T* __restrict in = x;
    T* __restrict out = x_grad;
    for (int64_t i = begin; i < end; ++i) gelu_gradient(given[i], in[i], out[i]);
  }
};

}  // namespace zero
