#pragma once

namespace zero {

// Lion (Chen et al., arXiv:2302.06675); state: exp_avg (m). Its authors take betas 0.9
// and 0.99, a third to a tenth of AdamW's lr and as many times its weight decay.
//
// Scalars in fp64, then rounded once to fp32 as AdamW's are. Per element, each operation
// rounded to fp32, none contracted:
//     g = grad * grad_factor
//     c = m * beta1 + g * one_minus_beta1
//     p = p * decay - lr * sign(c)           the sign of 0 is 0, of NaN NaN
//     m = m * beta2 + g * one_minus_beta2
struct LionRule {
  static constexpr int kNumStates = 1;

  float grad_factor, decay, beta1, one_minus_beta1, beta2, one_minus_beta2, lr;

  [[gnu::always_inline]] float apply(float p, float grad, float& m, float&) const {
    const float g = grad * grad_factor;
    const float c = m * beta1 + g * one_minus_beta1;
    const float sign = c > 0 ? 1.0f : (c < 0 ? -1.0f : c);
    m = m * beta2 + g * one_minus_beta2;
    return p * decay - lr * sign;
  }
};

}  // namespace zero
