#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "engine/step/torch/backward_pass.h"
#include "engine/unit/call_seed.h"
#include "engine/unit/unit_borders.h"
#include "engine/unit/unit_buffers.h"
#include "engine/weights/torch/activation_store.h"
#include "engine/weights/torch/weight_streamer.h"
#include "zero/errors.h"
#include "zero/options.h"
#include "zero/unit.h"

namespace zero {

// What an engine is doing; its units look here.
struct Phase {
  enum class Now { kIdle, kForward, kBackward };

  Now now = Now::kIdle;
  // Counts the changes of weights: a graph belongs to the weights it was made with.
  int64_t weights_version = 0;

  // Hooks and bodies run in the middle of a forward or a backward.
  void require_idle(const std::string& call) const {
    if (now == Now::kIdle) return;
    reject(call + " inside forward() or backward()", "zero::Engine",
           "call it afterwards");
  }
};

// Another value in a place for the length of a scope.
template <class T>
class Scoped : NoCopy {
 public:
  Scoped(T& place, T value) : place_(place), before_(std::exchange(place, value)) {}
  ~Scoped() { place_ = before_; }

 private:
  T& place_;
  const T before_;
};

// How a unit takes part in a backward.
struct UnitRole {
  bool is_leaf = false;  // it holds no other one
  bool recomputes = false;
};

// Run one unit of an attached engine: unshard, body, reshard, and the same in backward,
// with or without recompute.
//
// Whether a body changes its inputs in place is learned from its first call with
// gradients in each combination of train() and eval(): recomputation of one that does
// starts from copies.
class AttachedUnit : public UnitRunner,
                     public std::enable_shared_from_this<AttachedUnit> {
 public:
  // Its index in the plan, and what stands there. The modules' buffers are on `device`.
  // `activations`: null where inputs stay on the device.
  AttachedUnit(int index, const PlannedUnit& planned,
               const std::vector<torch::nn::Module*>& modules, UnitRole role,
               c10::Device device, const Options& options, const Phase& phase,
               const UnitBorders& borders, WeightStreamer& weights, BackwardPass& pass,
               std::shared_ptr<ActivationStore> activations);

  std::vector<at::Tensor> run(const UnitBody& body,
                              std::vector<UnitInput> inputs) override;

  // The engine is gone: calls and backwards throw.
  void detach() { is_attached_ = false; }

 private:
  friend class UnitCall;
  void check_attached() const;
  at::Tensor cast(const at::Tensor& input) const;
  std::vector<at::Tensor> cast_back(std::vector<at::Tensor> results) const;
  std::vector<at::Tensor> run_inference(const UnitBody& body,
                                        const std::vector<UnitInput>& inputs);

  WeightWatch watch_weights();
  void require_same_weights(const WeightWatch& watch);
  void require_same_buffers(const UnitBuffers::Watch& watch);
  void require_on_device(const at::Tensor& result) const;
  [[noreturn]] void refuse_changed_input(bool in_chunks) const;

  bool is_known(const std::vector<bool>& modes) const {
    return changes_inputs_.contains(modes);
  }
  bool may_change_inputs(const std::vector<bool>& modes) const;
  void learn(const std::vector<bool>& modes, bool changed_inputs);

  const int index_;
  const std::string fqn_;
  const bool recomputes_;
  const DType dtype_, outer_dtype_;
  const c10::Device device_;
  const int64_t chunk_rows_;  // of a kernel pass; 0: the whole input at once
  const bool chunks_change_buffers_;
  const Phase& phase_;
  const UnitBorders& borders_;
  WeightStreamer& weights_;
  BackwardPass& pass_;
  const std::shared_ptr<ActivationStore> activations_;
  const ModuleModes modes_;
  UnitBuffers buffers_;
  bool is_attached_ = true;
  std::map<std::vector<bool>, bool> changes_inputs_;  // by modes
  bool has_compared_weights_ = false;
  int num_recomputing_ = 0;  // calls of this unit
};

// Run a unit that was merged into the one around it: weights are there already, and
// random numbers do not depend on what was merged.
class MergedUnit : public UnitRunner {
 public:
  MergedUnit(std::string fqn, DType dtype) : fqn_(std::move(fqn)), dtype_(dtype) {}
  std::vector<at::Tensor> run(const UnitBody& body,
                              std::vector<UnitInput> inputs) override;

 private:
  const std::string fqn_;
  const DType dtype_;
};

}  // namespace zero
