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
  // Loss or gradient was not finite: nothing was changed, step did not advance.
  bool skipped = false;
  // FQN of the first parameter with a non-finite gradient, or "loss".
  std::string first_bad;
};

}  // namespace zero
