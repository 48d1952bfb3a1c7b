#pragma once

#include <cstdint>
#include <utility>

#include "engine/layers/elements.h"

namespace zero {

// F::apply() of elements that lie end to end: of kIn arrays, to kOut others.
template <class T, class F>
struct ElementPass {
  using In = std::make_index_sequence<F::kIn>;
  using Out = std::make_index_sequence<F::kOut>;
  const T* in[F::kIn];
  T* out[F::kOut];

  [[gnu::always_inline]] void run(int64_t begin, int64_t end) const {
    run_on(begin, end, In(), Out());
  }

 private:
  template <size_t... kIn, size_t... kOut>
  [[gnu::always_inline]] void run_on(int64_t begin, int64_t end,
                                     std::index_sequence<kIn...>,
                                     std::index_sequence<kOut...>) const {
    apply_to(begin, end, in[kIn]..., out[kOut]...);
  }
  template <class... Arrays>
  [[gnu::always_inline]] static void apply_to(int64_t begin, int64_t end,
                                              Arrays* __restrict... arrays) {
    for (int64_t i = begin; i < end; ++i) F::apply(arrays[i]...);
  }
};

// gelu_tanh().
struct Gelu {
  static constexpr const char* kName = "GELU";
  static constexpr int kIn = 1, kOut = 1;
  template <class T>
  ZERO_HOST_DEVICE static void apply(T x, T& y) {
    gelu_element(x, y);
  }
};
struct GeluBackward {
  static constexpr const char* kName = "GELU's gradient";
  static constexpr int kIn = 2, kOut = 1;
  template <class T>
  ZERO_HOST_DEVICE static void apply(T grad, T x, T& x_grad) {
    gelu_gradient(grad, x, x_grad);
  }
};

// swiglu(), and both gradients.
struct SwiGlu {
  static constexpr const char* kName = "SwiGLU";
  static constexpr int kIn = 2, kOut = 1;
  template <class T>
  ZERO_HOST_DEVICE static void apply(T gate, T up, T& y) {
    swiglu_element(gate, up, y);
  }
};
struct SwiGluBackward {
  static constexpr const char* kName = "SwiGLU's gradients";
  static constexpr int kIn = 3, kOut = 2;
  template <class T>
  ZERO_HOST_DEVICE static void apply(T grad, T gate, T up, T& gate_grad, T& up_grad) {
    swiglu_gradient(grad, gate, up, gate_grad, up_grad);
  }
};

template <class T>
using GeluPass = ElementPass<T, Gelu>;
template <class T>
using GeluBackwardPass = ElementPass<T, GeluBackward>;
template <class T>
using SwiGluPass = ElementPass<T, SwiGlu>;
template <class T>
using SwiGluBackwardPass = ElementPass<T, SwiGluBackward>;

}  // namespace zero
