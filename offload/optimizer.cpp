#include "offload/optimizer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>

#include "offload/float_environment.h"

namespace zero {
namespace {

struct Words {
  std::string_view name, states[kMaxStates];
  size_t num_states;
};

// In the order of the enum.
constexpr Words kWords[] = {{"adamw", {"exp_avg", "exp_avg_sq"}, 2},
                            {"sgd", {"momentum_buffer"}, 1},
                            {"lion", {"exp_avg"}, 1},
                            {"adagrad", {"sum"}, 1}};

constexpr double kAboveFloats = 3.4028235e38;  // the largest and less than half a step

void check_field(const char* name, double value, double below, const char* range) {
  if (value >= 0 && value < below) return;  // false for NaN
  std::ostringstream text;
  text << name << " is " << value << ", must be in " << range;
  throw std::invalid_argument(text.str());
}

// pow() differs between C libraries and CPUs.
double power(double base, int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}

DecayAndBetas decay_and_betas(const OptimizerOptions& options, double lr,
                              float grad_factor) {
  return {.grad_factor = grad_factor,
          .decay = static_cast<float>(1 - lr * options.weight_decay),
          .beta1 = static_cast<float>(options.beta1),
          .one_minus_beta1 = static_cast<float>(1 - options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .one_minus_beta2 = static_cast<float>(1 - options.beta2)};
}

AdamWRule adamw_rule(const OptimizerOptions& options, double lr, int64_t step,
                     float grad_factor) {
  const double bias_correction1 = 1 - power(options.beta1, step);
  const double bias_correction2 = 1 - power(options.beta2, step);
  return {decay_and_betas(options, lr, grad_factor),
          /*step_size=*/static_cast<float>(lr / bias_correction1),
          /*sqrt_bc2=*/static_cast<float>(std::sqrt(bias_correction2)),
          /*eps=*/static_cast<float>(options.eps)};
}

SgdRule sgd_rule(const OptimizerOptions& options, double lr, float grad_factor) {
  return {.grad_factor = grad_factor,
          .weight_decay = static_cast<float>(options.weight_decay),
          .momentum = static_cast<float>(options.momentum),
          .lr = static_cast<float>(lr),
          .nesterov = options.nesterov};
}

AdagradRule adagrad_rule(const OptimizerOptions& options, double lr, float grad_factor) {
  return {.grad_factor = grad_factor,
          .weight_decay = static_cast<float>(options.weight_decay),
          .lr = static_cast<float>(lr),
          .eps = static_cast<float>(options.eps)};
}

}  // namespace

const char* name_of(Optimizer optimizer) {
  return kWords[static_cast<size_t>(optimizer)].name.data();
}

std::optional<Optimizer> optimizer_named(std::string_view name) {
  const auto found = std::ranges::find(kWords, name, &Words::name);
  if (found == std::end(kWords)) return std::nullopt;
  return static_cast<Optimizer>(found - std::begin(kWords));
}

std::span<const std::string_view> states_of(Optimizer optimizer) {
  const Words& words = kWords[static_cast<size_t>(optimizer)];
  return {words.states, words.num_states};
}

void check(const OptimizerOptions& options, double lr) {
  check_field("lr", lr, kAboveFloats, "[0, 3.4e38]");
  check_field("beta1", options.beta1, 1, "[0, 1)");
  check_field("beta2", options.beta2, 1, "[0, 1)");
  check_field("eps", options.eps, kAboveFloats, "[0, 3.4e38]");
  check_field("weight_decay", options.weight_decay, kAboveFloats, "[0, 3.4e38]");
  check_field("momentum", options.momentum, 1, "[0, 1)");
  if (options.nesterov && options.momentum == 0)
    throw std::invalid_argument("momentum is 0, must be in (0, 1) with nesterov");
}

UpdateRule make_rule(const OptimizerOptions& options, double lr, int64_t step,
                     float grad_factor) {
  check(options, lr);
  if (step < 1) {
    throw std::invalid_argument("step is " + std::to_string(step) +
                                ", must be 1 or more");
  }
  DefaultFloatEnvironment default_rounding;
  switch (options.kind) {
    case Optimizer::kSgd:
      return sgd_rule(options, lr, grad_factor);
    case Optimizer::kLion:
      return LionRule{decay_and_betas(options, lr, grad_factor), static_cast<float>(lr)};
    case Optimizer::kAdagrad:
      return adagrad_rule(options, lr, grad_factor);
    default:
      return adamw_rule(options, lr, step, grad_factor);
  }
}

}  // namespace zero
