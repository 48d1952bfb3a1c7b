#include "engine/step/backward_pass.h"

#include <algorithm>

namespace zero {

BackwardPass::BackwardPass(int num_units, GradientShards& gradients,
                           WeightStreamer& weights)
    : gradients_(gradients), weights_(weights), num_waiting_(num_units, 0) {}

void BackwardPass::forward_called(int unit) { ++num_waiting_[unit]; }

void BackwardPass::call_dropped(int unit) {
  num_waiting_[unit] = std::max(0, num_waiting_[unit] - 1);
}

void BackwardPass::chunk_done(int unit) {
  gradients_.collect(unit, weights_.trainable_params(unit));
}

void BackwardPass::backward_done(int unit) {
  call_dropped(unit);
  gradients_.collect(unit, weights_.trainable_params(unit));
  reduce_ready(/*all=*/false);
}

void BackwardPass::begin() { next_ = static_cast<int>(num_waiting_.size()) - 1; }

void BackwardPass::end() {
  gradients_.collect(0, weights_.trainable_params(0));
  reduce_ready(/*all=*/true);
}

void BackwardPass::forget() { std::fill(num_waiting_.begin(), num_waiting_.end(), 0); }

void BackwardPass::reduce_ready(bool all) {
  for (; next_ >= 0; --next_) {
    const bool is_ready = all || (next_ > 0 && num_waiting_[next_] == 0);
    if (!is_ready) return;
    gradients_.reduce(next_);
  }
}

}  // namespace zero
