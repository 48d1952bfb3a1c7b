#include "zero/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "base/text.h"
#include "zero/errors.h"

namespace zero {
namespace {

void require(bool holds, const std::string& problem, const std::string& cure) {
  if (!holds) reject(problem, "learning-rate schedule", cure);
}

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

void check(const LrSchedule& s) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  require(s.lr >= 0 && s.lr <= kLargest, text_of("lr is ", s.lr),
          "--lr: a number from 0 to " + text_of(kLargest));
  require(s.min_lr >= 0 && s.min_lr <= s.lr,
          text_of("min_lr is ", s.min_lr, ", lr is ", s.lr),
          "--min-lr: a number from 0 to lr");
  require(s.warmup_steps >= 0, text_of("warmup_steps is ", s.warmup_steps),
          "--warmup-steps: 0 or more");
  if (s.kind == LrSchedule::Kind::kConstant) return;
  require(s.total_steps > 0, text_of("total_steps is ", s.total_steps),
          "this schedule needs the total number of steps");
  require(s.warmup_steps <= s.total_steps,
          text_of("warmup_steps is ", s.warmup_steps, ", the run has ", s.total_steps,
                  " steps"),
          "--warmup-steps: at most --steps");
}

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
