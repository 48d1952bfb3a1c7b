#include "tests/offload/adam_reference.h"

#include <bit>
#include <cmath>
#include <utility>

namespace zero {
namespace {

float add(double a, double b) { return static_cast<float>(a + b); }
float subtract(double a, double b) { return static_cast<float>(a - b); }
float multiply(double a, double b) { return static_cast<float>(a * b); }
float divide(double a, double b) { return static_cast<float>(a / b); }
float root(double a) { return static_cast<float>(std::sqrt(a)); }

// The value of a bfloat16; what would be infinite stands for 2^128, the next step of the
// scale.
double scale_value(uint16_t bits) {
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = (bits >> 7) & 0xff;
  const int mantissa = bits & 0x7f;
  if (exponent == 0) return sign * std::ldexp(mantissa, -133);
  return sign * std::ldexp(128 + mantissa, exponent - 134);
}

}  // namespace

OptimizerOptions AdamHyper::options() const {
  return {.kind = Optimizer::kAdamW,
          .beta1 = beta1,
          .beta2 = beta2,
          .eps = eps,
          .weight_decay = weight_decay};
}

void adam_step(const UpdatePiece& piece, const AdamHyper& hyper, int64_t step,
               float grad_factor, ThreadPool& pool) {
  const Update one{piece, make_rule(hyper.options(), hyper.lr, step, grad_factor)};
  update({&one, 1}, pool);
}

AdamState::AdamState(std::vector<float> weights)
    : master(std::move(weights)),
      exp_avg(master.size()),
      exp_avg_sq(master.size()),
      copy(master.size()) {}

UpdatePiece AdamState::piece(const std::vector<float>& grad) {
  return {.grad = grad.data(),
          .master = master.data(),
          .state = {exp_avg.data(), exp_avg_sq.data()},
          .copy_bf16 = copy.data(),
          .numel = static_cast<int64_t>(master.size())};
}

uint16_t float_to_bf16_reference(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const auto toward_zero = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  if (std::isinf(value)) return toward_zero;
  const auto away = static_cast<uint16_t>(toward_zero + 1);
  const double distance_down = std::fabs(value - scale_value(toward_zero));
  const double distance_up = std::fabs(value - scale_value(away));
  if (distance_down != distance_up)
    return distance_down < distance_up ? toward_zero : away;
  return toward_zero % 2 == 0 ? toward_zero : away;
}

void adam_step_reference(AdamState& state, const std::vector<float>& grad,
                         const AdamHyper& hyper, int64_t step, float grad_factor) {
  const auto num_steps = static_cast<double>(step);
  const auto step_size =
      static_cast<float>(hyper.lr / (1 - std::pow(hyper.beta1, num_steps)));
  const auto sqrt_bc2 =
      static_cast<float>(std::sqrt(1 - std::pow(hyper.beta2, num_steps)));
  const auto beta1 = static_cast<float>(hyper.beta1);
  const auto beta2 = static_cast<float>(hyper.beta2);
  const auto rest1 = static_cast<float>(1 - hyper.beta1);
  const auto rest2 = static_cast<float>(1 - hyper.beta2);
  const auto decay = static_cast<float>(1 - hyper.lr * hyper.weight_decay);
  const auto eps = static_cast<float>(hyper.eps);

  for (size_t i = 0; i < state.master.size(); ++i) {
    const float g = multiply(grad[i], grad_factor);
    float& p = state.master[i];
    float& m = state.exp_avg[i];
    float& v = state.exp_avg_sq[i];
    p = multiply(p, decay);
    m = add(multiply(m, beta1), multiply(g, rest1));
    v = add(multiply(v, beta2), multiply(multiply(g, g), rest2));
    const float d = add(divide(root(v), sqrt_bc2), eps);
    if (d != 0) p = subtract(p, divide(multiply(step_size, m), d));
    state.copy[i] = float_to_bf16_reference(p);
  }
}

void DoubleAdam::step(const std::vector<float>& grad, const AdamHyper& hyper,
                      int64_t step) {
  const double bias1 = 1 - std::pow(hyper.beta1, static_cast<double>(step));
  const double bias2 = 1 - std::pow(hyper.beta2, static_cast<double>(step));
  for (size_t i = 0; i < master.size(); ++i) {
    const double g = grad[i];
    master[i] *= 1 - hyper.lr * hyper.weight_decay;
    exp_avg[i] = hyper.beta1 * exp_avg[i] + (1 - hyper.beta1) * g;
    exp_avg_sq[i] = hyper.beta2 * exp_avg_sq[i] + (1 - hyper.beta2) * g * g;
    master[i] -=
        hyper.lr * (exp_avg[i] / bias1) / (std::sqrt(exp_avg_sq[i] / bias2) + hyper.eps);
  }
}

}  // namespace zero
