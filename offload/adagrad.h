#pragma once

#include <cmath>

namespace zero {

// Adagrad (Duchi et al., JMLR 12, 2011) as torch::optim::Adagrad does it, which takes an
// eps of 1e-10: weight decay is part of the gradient; state: sum (s).
//
// Scalars are rounded once to fp32. Per element, each operation rounded to fp32, none
// contracted:
//     g = grad * grad_factor + p * weight_decay
//     s = s + g * g
//     d = sqrt(s) + eps
//     p = p - (lr * g) / d                   unless d is 0: then p stays
// |g| above 1.8e19 makes s infinite: from then on the slot stays as it is. A NaN gradient
// makes p and s of its slot NaN, and of no other.
struct AdagradRule {
  static constexpr int kNumStates = 1;

  float grad_factor, weight_decay, lr, eps;

  [[gnu::always_inline]] float apply(float p, float grad, float& s, float&) const {
    const float g = grad * grad_factor + p * weight_decay;
    s = s + g * g;
    const float d = std::sqrt(s) + eps;
    const float quotient = lr * g / d;
    const float update = d == 0.0f ? 0.0f : quotient;  // a select: it vectorises
    return p - update;
  }
};

}  // namespace zero
