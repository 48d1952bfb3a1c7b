#pragma once

#include <ATen/autocast_mode.h>
#include <c10/core/Device.h>
#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/device/torch/compute_type.h"

namespace zero {

// The seed of one forward of the model: the `number`-th since the last backward, or, one
// without gradients, since the last step. A forward without gradients changes nothing
// about those of others.
uint64_t forward_seed(uint64_t seed, int64_t num_steps, uint64_t micro_batch,
                      bool has_gradients, uint64_t number);

// Seed torch's default generators, of the CPU and of the device that units compute on,
// for the length of a call, and give the caller their states back afterwards.
//
// The seed is a function of the enclosing call's seed, the FQN and how often that call
// has called this FQN: the same on any rank, with any wrapping, and again when a unit is
// recomputed. Scopes nest; they belong to one thread. The generators belong to the whole
// process: end_state() tells whether somebody else drew from them.
class CallSeed : NoCopy {
 public:
  // Inside another scope that draws; without one the generators are left alone.
  explicit CallSeed(const std::string& fqn);
  // The outermost scope, or a recomputed one: from a given seed. When `draws` is false
  // the generators are left alone here and inside.
  explicit CallSeed(uint64_t seed, bool draws = true, c10::Device device = c10::kCPU);
  ~CallSeed();

  uint64_t seed() const { return seed_; }
  bool draws() const { return draws_; }
  // A fingerprint of the generators' states now: equal after equal draws from this seed.
  // 0 when nothing is drawn here, or when ranks are threads that share them.
  uint64_t end_state() const;

 private:
  void enter(uint64_t seed, bool draws, c10::Device device);

  CallSeed* const outer_;  // null: it changes nothing, but for the outermost
  uint64_t seed_ = 0;
  bool draws_ = false;
  c10::Device device_ = c10::kCPU;
  std::vector<at::Tensor> caller_states_;      // of the generators of CPU and device
  std::map<std::string, uint64_t> num_calls_;  // of inner units, by FQN
};

// train() or eval() of each module of some trees, to be given back for a recomputation.
class ModuleModes {
 public:
  explicit ModuleModes(const std::vector<torch::nn::Module*>& roots);

  std::vector<bool> current() const;  // is it training?
  // While it lives, the modules have `modes`.
  class Scope : NoCopy {
   public:
    Scope(const ModuleModes& modules, const std::vector<bool>& modes);
    ~Scope();

   private:
    const ModuleModes& modules_;
    const std::vector<bool> now_;
  };

 private:
  void set(const std::vector<bool>& modes) const;
  std::vector<torch::nn::Module*> modules_;  // parents before children
};

// Autocast inside a unit: the state of the forward call, also when recomputing, and
// without its cache of cast weights, which would keep copies of weights that are
// released.
class AutocastScope : NoCopy {
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
    void apply() const { cpu.apply(), gpu.apply(); }
  };
  explicit AutocastScope(const State& state)
      : uses_cache_(at::autocast::is_autocast_cache_enabled()) {
    state.apply();
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~AutocastScope() {
    caller_.apply();
    at::autocast::set_autocast_cache_enabled(uses_cache_);
  }

 private:
  const State caller_;
  const bool uses_cache_;
};

}  // namespace zero
