#pragma once

namespace zero {

// SGD with momentum as torch::optim::SGD does it without dampening: weight decay is part
// of the gradient; state: momentum_buffer (m).
//
// Scalars are rounded once to fp32. Per element, each operation rounded to fp32, none
// contracted:
//     g = grad * grad_factor + p * weight_decay
//     m = m * momentum + g
//     p = p - lr * m                         nesterov: p - lr * (g + m * momentum)
// A gradient that is not finite makes p and m of its slot so, and of no other.
struct SgdRule {
  static constexpr int kNumStates = 1;

  float grad_factor, weight_decay, momentum, lr;
  bool nesterov;

  [[gnu::always_inline]] float apply(float p, float grad, float& m, float&) const {
    const float g = grad * grad_factor + p * weight_decay;
    m = m * momentum + g;
    const float ahead = g + m * momentum;
    return p - lr * (nesterov ? ahead : m);
  }
};

}  // namespace zero
