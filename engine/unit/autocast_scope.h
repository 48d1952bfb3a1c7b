#pragma once
#include <ATen/autocast_mode.h>

#include "engine/device/torch/compute_type.h"

namespace zero {

// Autocast inside a unit: the state of the forward call, also when recomputing, and
// without its cache of cast weights, which would keep copies of weights that are
// released.
class AutocastScope {
 private:
  struct OfDevice {
    explicit OfDevice(at::DeviceType device)
        : type(device),
          is_enabled(at::autocast::is_autocast_enabled(device)),
          dtype(at::autocast::get_autocast_dtype(device)) {}
    void apply() const {
      at::autocast::set_autocast_enabled(type, is_enabled);
      at::autocast::set_autocast_dtype(type, dtype);
    }

    at::DeviceType type;
    bool is_enabled;
    at::ScalarType dtype;
  };

 public:
  struct State {
    OfDevice cpu{at::kCPU}, gpu{tensor_device(0).type()};
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
    state.cpu.apply();
    state.gpu.apply();
  }
  const State caller_;
  const bool uses_cache_;
};

}  // namespace zero
