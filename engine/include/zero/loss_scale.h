#pragma once
#include <cstdint>

namespace zero {

// How a loss is scaled whose gradients fp16 would lose: too small ones become zero there,
// too large ones infinite. Scales are powers of two, so that nothing is rounded by them.
struct LossScaleOptions {
  int64_t init = 1 << 16;
  int64_t window = 2000;  // steps without an overflow in a row, after which it doubles
  int64_t min = 1;        // overflows do not halve it any further

  bool operator==(const LossScaleOptions&) const = default;
};

// It doubles no further: where no gradient can ever overflow, it would never end.
inline constexpr int64_t kLargestLossScale = 1 << 24;

// Where a run's loss scale stands: what a checkpoint keeps of it.
struct LossScaleState {
  int64_t scale = 1;
  int64_t num_clean = 0;  // steps in a row without an overflow since it last changed

  bool operator==(const LossScaleState&) const = default;
};

// One of the powers of two that a scale may be.
bool is_loss_scale(int64_t value);

// After a step at this scale whose loss or gradient was not finite (an overflow), or was.
LossScaleState next(const LossScaleState& state, bool has_overflowed,
                    const LossScaleOptions& options);

}  // namespace zero
