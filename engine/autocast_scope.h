#pragma once
#include <ATen/autocast_mode.h>

namespace zero {

// Autocast inside a unit: the state of the forward call, also when recomputing, and
// without its cache of cast weights, which would keep copies of weights that are
// released.
class AutocastScope {
 public:
  struct State {
    bool is_enabled = at::autocast::is_autocast_enabled(at::kCPU);
    at::ScalarType dtype = at::autocast::get_autocast_dtype(at::kCPU);
  };
  explicit AutocastScope(const State& state)
      : uses_cache_(at::autocast::is_autocast_cache_enabled()) {
    apply(state);
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~AutocastScope() {
    apply(caller_);
    at::autocast::set_autocast_cache_enabled(uses_cache_);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  static void apply(const State& state) {
    at::autocast::set_autocast_enabled(at::kCPU, state.is_enabled);
    at::autocast::set_autocast_dtype(at::kCPU, state.dtype);
  }
  const State caller_;
  const bool uses_cache_;
};

}  // namespace zero
