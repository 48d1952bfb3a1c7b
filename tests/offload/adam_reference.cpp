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

// Floats of 16 bits.
struct Narrow {
  int mantissa_bits;
  int lowest_exponent;  // 2 to this is the smallest value above zero
  uint16_t infinity, nan;

  // What would be infinite stands for the next step of the scale.
  double value(uint16_t bits) const {
    const double sign = bits & 0x8000 ? -1 : 1;
    const int magnitude = bits & 0x7fff, hidden = 1 << mantissa_bits;
    const int exponent = magnitude >> mantissa_bits, mantissa = magnitude % hidden;
    if (exponent == 0) return sign * std::ldexp(mantissa, lowest_exponent);
    return sign * std::ldexp(hidden + mantissa, lowest_exponent + exponent - 1);
  }

  // By search among all that are not larger: the nearest ones are next to each other.
  uint16_t nearest(float value) const {
    if (std::isnan(value)) return nan;
    const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
    if (std::isinf(value)) return sign | infinity;
    const double wanted = std::fabs(value);
    uint16_t below = 0, above = infinity;
    if (wanted >= this->value(above)) return sign | infinity;
    while (above - below > 1) {
      const auto middle = static_cast<uint16_t>((below + above) / 2);
      (this->value(middle) <= wanted ? below : above) = middle;
    }
    const double down = wanted - this->value(below), up = this->value(above) - wanted;
    if (down != up) return sign | (down < up ? below : above);
    return sign | (below % 2 == 0 ? below : above);
  }
};

constexpr Narrow kBf16{7, -133, 0x7f80, 0x7fc0}, kFp16{10, -24, 0x7c00, 0x7e00};

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

uint16_t float_to_bf16_reference(float value) { return kBf16.nearest(value); }
uint16_t float_to_fp16_reference(float value) { return kFp16.nearest(value); }

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
