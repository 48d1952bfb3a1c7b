#include "zero/loss_scale.h"

#include <algorithm>
#include <bit>
#include <string>

#include "zero/errors.h"

namespace zero {
namespace {

void require(bool holds, const std::string& name, int64_t value,
             const std::string& allowed) {
  if (holds) return;
  reject(name + " is " + std::to_string(value), "loss scale", allowed);
}

}  // namespace

bool is_loss_scale(int64_t value) {
  return value >= 1 && value <= kLargestLossScale &&
         std::has_single_bit(static_cast<uint64_t>(value));
}

void check(const LossScaleOptions& options) {
  const std::string powers = "a power of two from 1 to " +
                             std::to_string(kLargestLossScale) +
                             ": others would round gradients";
  require(is_loss_scale(options.init), "loss_scale_init", options.init, powers);
  require(is_loss_scale(options.min), "loss_scale_min", options.min, powers);
  require(options.min <= options.init, "loss_scale_min", options.min,
          "at most loss_scale_init, " + std::to_string(options.init));
  require(options.window >= 1, "loss_scale_window", options.window, "1 step or more");
}

LossScaleState next(const LossScaleState& state, bool has_overflowed,
                    const LossScaleOptions& options) {
  if (has_overflowed) return {std::max(state.scale / 2, options.min), 0};
  if (state.num_clean + 1 < options.window) return {state.scale, state.num_clean + 1};
  return {std::min(state.scale * 2, kLargestLossScale), 0};
}

}  // namespace zero
