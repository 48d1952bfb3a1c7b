#pragma once
#include <cstdint>

namespace zero {

// The learning rate as a function of the number of finished updates.
//
//   warm-up    steps 0 .. warmup_steps-1: lr * (step + 1) / warmup_steps
//   constant   lr
//   linear     from lr down to min_lr at total_steps
//   cosine     the same way down along half a cosine
//   wsd        lr, then linearly to min_lr over the last decay_steps (0: a fifth of
//   total_steps)
//
// After total_steps it stays at the last value (constant: lr, others: min_lr).
struct LrSchedule {
  enum class Kind { kConstant, kLinear, kCosine, kWsd };
  Kind kind = Kind::kConstant;
  double lr = 3e-4;
  double min_lr = 0;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;  // needed by linear, cosine and wsd
  int64_t decay_steps = 0;  // wsd only
};

double learning_rate(const LrSchedule& schedule, int64_t step);

}  // namespace zero
