#include "zero/loss_scale.h"

#include <algorithm>
#include <bit>

namespace zero {

bool is_loss_scale(int64_t value) {
  return value >= 1 && value <= kLargestLossScale &&
         std::has_single_bit(static_cast<uint64_t>(value));
}

LossScaleState next(const LossScaleState& state, bool has_overflowed,
                    const LossScaleOptions& options) {
  if (has_overflowed) return {std::max(state.scale / 2, options.min), 0};
  if (state.num_clean < options.window - 1) return {state.scale, state.num_clean + 1};
  return {std::min(state.scale * 2, kLargestLossScale), 0};
}

}  // namespace zero
