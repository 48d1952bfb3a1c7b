#pragma once
#include <torch/torch.h>

#include <list>
#include <optional>
#include <unordered_set>

#include "engine/engine_units.h"
#include "engine/unit/call_seed.h"
#include "engine/unit/pending_forwards.h"
#include "engine/watch/activity.h"

namespace zero {

// What an engine does around the model's own forward: seed, arguments, the root's
// weights, and which graphs may still get a backward.
class EngineForward {
 public:
  EngineForward(EngineResources& own, EngineUnits& units) : own_(own), units_(units) {}

  // A forward runs from begin() to end(); it threw if finish() was not called in between.
  // `num_steps` so far, and `num_passes` of backward in this step. Throws Error(kUsage)
  // before anything runs.
  void begin(int64_t num_steps, size_t num_passes);
  // An argument as the model gets it; alive until end().
  at::Tensor& cast(at::Tensor& argument);
  void add_result(at::Tensor& result);  // one of the tensors that it returned
  // Throws Error(kUsage) for a parameter that it changed.
  void finish();
  void end();

  // Around a backward through `nodes`. Throws Error(kUsage) before anything changes if
  // something of it was made with other weights or has had a backward.
  void begin_backward(const std::unordered_set<torch::autograd::Node*>& nodes);
  void end_backward();
  void end_step() { num_forwards_ = num_forwards_without_grad_ = 0; }

  void require_requires_grad() const;
  // Throws Error(kUsage) for a module with parameters that nobody would train.
  void require_own(const torch::nn::Module& module) const;
  bool has_results_in(const std::unordered_set<torch::autograd::Node*>& nodes) const {
    return pending_.has_results_in(nodes);
  }
  bool has_pending() { return pending_.any(units_.phase.weights_version); }
  // On a GPU: streams of the engine's own wait for that one, and it for them.
  void require_default_stream(const std::string& call) const;
  void release_root();
  void release_unneeded_root();
  // What was gathered is old, and graphs that were made with it are, too. Have frozen
  // parameters changed as well?
  void weights_changed(bool frozen_too);

 private:
  // Who needs the root's weights: a forward without gradients until it ends, one with
  // gradients until the last backward of its step's graphs.
  enum class Root { kReleased, kHeldByForward, kHeldForBackward };

  void hold_root(Root root);
  void require_no_others() const;
  uint64_t key(int64_t num_steps, size_t num_passes);

  EngineResources& own_;
  EngineUnits& units_;
  Root root_ = Root::kReleased;
  PendingForwards pending_;
  std::optional<WeightWatch> root_watch_;  // of the last forward
  // Since the last backward, and without gradients since the last step: each forward
  // draws random numbers of its own.
  uint64_t num_forwards_ = 0, num_forwards_without_grad_ = 0;

  // --- while one runs
  uint64_t* counted_in_ = nullptr;
  std::list<at::Tensor> cast_arguments_;
  std::optional<CallSeed> seed_;
  std::optional<Activity::Stretch> stretch_;
  std::optional<StreamClock::Span> span_;
};

}  // namespace zero
