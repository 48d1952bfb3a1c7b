#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "base/host_device.h"

namespace zero {

// What AdamW and Lion have in common.
struct DecayAndBetas {
  float grad_factor, decay, beta1, one_minus_beta1, beta2, one_minus_beta2;
};

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
struct AdamWRule : DecayAndBetas {
  static constexpr int kNumStates = 2;

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

// Lion (Chen et al., arXiv:2302.06675); state: exp_avg (m). Its authors take betas 0.9
// and 0.99, a third to a tenth of AdamW's lr and as many times its weight decay.
//
// Scalars in fp64, then rounded once to fp32 as AdamW's are. Per element, each operation
// rounded to fp32, none contracted:
//     g = grad * grad_factor
//     c = m * beta1 + g * one_minus_beta1
//     p = p * decay - lr * sign(c)           the sign of 0 is 0, of NaN NaN
//     m = m * beta2 + g * one_minus_beta2
struct LionRule : DecayAndBetas {
  static constexpr int kNumStates = 1;

  float lr;

  [[gnu::always_inline]] float apply(float p, float grad, float& m, float&) const {
    const float g = grad * grad_factor;
    const float c = m * beta1 + g * one_minus_beta1;
    const float sign = c > 0 ? 1.0f : (c < 0 ? -1.0f : c);
    m = m * beta2 + g * one_minus_beta2;
    return p * decay - lr * sign;
  }
};

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

enum class Optimizer { kAdamW, kSgd, kLion, kAdagrad };

const char* name_of(Optimizer optimizer);  // "adamw", "sgd", "lion", "adagrad"
std::optional<Optimizer> optimizer_named(std::string_view name);

// The arrays that it keeps beside each parameter, by the names that torch gives them:
// "exp_avg", "exp_avg_sq". At most kMaxStates.
inline constexpr int kMaxStates = 2;
std::span<const std::string_view> states_of(Optimizer optimizer);

// Its constants. Each optimizer reads those that its rule tells of.
struct OptimizerOptions {
  Optimizer kind = Optimizer::kAdamW;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0.9;
  bool nesterov = false;
};

// Throw std::invalid_argument, naming field, value and allowed range, unless all are
// finite, lr, eps and weight_decay are at least 0, and betas and momentum lie in [0, 1);
// Nesterov's is above 0.
void check(const OptimizerOptions& options, double lr);

using UpdateRule = std::variant<AdamWRule, SgdRule, LionRule, AdagradRule>;

// What one step does to each element, its scalars computed in fp64 and rounded once to
// fp32.
//
// `step` counts from 1, the first one that this state has seen. `grad_factor` multiplies
// every gradient: clipping, loss scale, divisor. Throws as check() does, and for a step
// below 1.
UpdateRule make_rule(const OptimizerOptions& options, double lr, int64_t step,
                     float grad_factor);

}  // namespace zero
