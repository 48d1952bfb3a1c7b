#pragma once
#include <cstdint>
#include <string>

namespace zero {

// What one update did. The same on every rank.
struct StepReport {
  int64_t step = 0;         // updates finished so far, this one included
  double loss = 0;          // sum over all targets of the global batch / their number
  int64_t num_targets = 0;  // of the global batch
  double grad_norm = 0;     // of the mean gradient, before clipping
  double clip_coef = 1;     // what the gradient was multiplied with
  double lr = 0;
  // What the loss was multiplied with in backward; the numbers here are without it. 0:
  // nothing, as the dtype is not fp16.
  int64_t loss_scale = 0;
  // Loss or gradient was not finite: nothing was changed, step did not advance. In fp16
  // that is usual now and then; the next step has a smaller scale.
  bool skipped = false;
  // FQN of the first parameter with a non-finite gradient, or "loss".
  std::string first_bad;
};

}  // namespace zero
