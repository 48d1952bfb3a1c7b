#include "zero/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace zero {
namespace {

int64_t decay_begin(const LrSchedule& s) {
  if (s.kind != LrSchedule::Kind::kWsd) return s.warmup_steps;
  const int64_t decay =
      s.decay_steps > 0 ? s.decay_steps : std::max<int64_t>(1, s.total_steps / 5);
  return std::max(s.warmup_steps, s.total_steps - decay);
}

// 0 at decay_begin, 1 at total_steps and after, also where these are one step.
double progress(const LrSchedule& s, int64_t step) {
  const int64_t begin = decay_begin(s);
  if (step >= s.total_steps) return 1;
  if (step <= begin) return 0;
  return static_cast<double>(step - begin) / static_cast<double>(s.total_steps - begin);
}

}  // namespace

double learning_rate(const LrSchedule& s, int64_t step) {
  if (step < s.warmup_steps) {
    return s.lr * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  }
  switch (s.kind) {
    case LrSchedule::Kind::kConstant:
      return s.lr;
    case LrSchedule::Kind::kCosine:
      return s.min_lr + (s.lr - s.min_lr) * 0.5 *
                            (1 + std::cos(std::numbers::pi * progress(s, step)));
    case LrSchedule::Kind::kLinear:
    case LrSchedule::Kind::kWsd:
      return s.lr + (s.min_lr - s.lr) * progress(s, step);
  }
  return s.lr;
}

}  // namespace zero
