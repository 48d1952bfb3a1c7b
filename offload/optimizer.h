#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "offload/adagrad.h"
#include "offload/adamw.h"
#include "offload/lion.h"
#include "offload/sgd.h"

namespace zero {

enum class Optimizer { kAdamW, kSgd, kLion, kAdagrad };

const char* name_of(Optimizer optimizer);  // "adamw", "sgd", "lion", "adagrad"
std::optional<Optimizer> optimizer_named(std::string_view name);

// The arrays that it keeps beside each parameter, by the names that torch gives them:
// "exp_avg", "exp_avg_sq". At most kMaxStates.
inline constexpr int kMaxStates = 2;
std::span<const std::string_view> states_of(Optimizer optimizer);

// Its constants. Each optimizer reads those that its own header names.
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
// finite, lr, eps and weight_decay are at least 0, and betas and momentum lie in [0, 1).
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
