#pragma once

#include <cmath>

#include "base/host_device.h"

namespace zero {

// AdamW (Loshchilov and Hutter, arXiv:1711.05101); state: exp_avg (m), exp_avg_sq (v).
//
// The arithmetic is a specification; another implementation of it must give the same
// bits. Per step, in fp64 and then rounded once to fp32 (powers by repeated squaring):
//     decay = 1 - lr * weight_decay          one_minus_beta = 1 - beta
//     step_size = lr / (1 - beta1^step)      sqrt_bc2 = sqrt(1 - beta2^step)
// Per element, each operation rounded to fp32, none contracted into a fused multiply-add:
//     g = grad * grad_factor
//     p = p * decay
//     m = m * beta1 + g * one_minus_beta1
//     v = v * beta2 + (g * g) * one_minus_beta2
//     d = sqrt(v) / sqrt_bc2 + eps
//     p = p - (step_size * m) / d            unless d is 0: then p stays
//
// At the edges: d is 0 only when eps and v are, as in a slot that has seen no gradient;
// its quotient, 0/0 or m/0, counts as 0. |g| above 1.8e19 makes g * g and from then on v
// infinite: the slot is decayed but no longer updated. |g| below about 1e-21 vanishes in
// v. A NaN gradient makes p, m and v of its slot NaN, and of no other; an infinite one
// makes m and v infinite and p NaN.
struct AdamWRule {
  static constexpr int kNumStates = 2;

  float grad_factor, decay, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float step_size, sqrt_bc2, eps;

  ZERO_HOST_DEVICE float apply(float p, float grad, float& m, float& v) const {
    const float g = grad * grad_factor;
    m = m * beta1 + g * one_minus_beta1;
    v = v * beta2 + (g * g) * one_minus_beta2;
    const float d = std::sqrt(v) / sqrt_bc2 + eps;
    const float quotient = step_size * m / d;
    const float update = d == 0.0f ? 0.0f : quotient;  // a select: it vectorises
    return p * decay - update;
  }
};

}  // namespace zero
