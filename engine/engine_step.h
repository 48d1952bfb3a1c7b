#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/engine_forward.h"
#include "engine/engine_values.h"
#include "engine/step/gradient_norm.h"
#include "zero/loss_scale.h"
#include "zero/reports.h"

namespace zero {

// A step: its backwards, the gradient that comes of them, the update; and how many there
// were. Throws Error(kUsage) for calls that have no place in it.
class EngineStep {
 public:
  EngineStep(EngineResources& own, EngineUnits& units, EngineForward& forward,
             EngineValues& values);

  void backward(const at::Tensor& loss_sum, int64_t num_targets);
  void discard();
  StepReport finish();
  // Wait for the reductions, and sum losses and targets over all micro-batches in their
  // global order. Then shards hold the step's gradients: sums that mean_factor() makes
  // means over all targets.
  void finish_gradients();
  double mean_factor() const { return mean_factor(target_total_); }

  // Throws after a backward that did: nobody knows what of the gradient is there.
  void require_whole() const;
  size_t num_passes() const { return losses_.size(); }

  int64_t num_steps() const { return num_steps_; }
  // Of all parameters that set_optimizer_start() has not named, and of each.
  int64_t optimizer_start() const { return optimizer_start_; }
  int64_t optimizer_start(size_t param) const { return starts_[param]; }
  void set_num_steps(int64_t steps, int64_t optimizer_start);
  void set_optimizer_start(size_t param, int64_t start);
  void set_frozen(const std::string& pattern, bool frozen);
  void set_learning_rate(double lr);
  const LossScaleState& loss_scale() const { return loss_scale_; }
  void set_loss_scale(const LossScaleState& state);

 private:
  // Of this step: more is added; a backward threw, so that it is undefined; or it is that
  // of all ranks.
  enum class Gradient { kOpen, kBroken, kFinished };

  void require_room() const;
  void require_passes() const;
  void require_targets() const;
  void run_backward(const at::Tensor& loss_sum, int64_t num_targets);
  void expect_update(int64_t num_targets);
  void drop_stray_gradients();
  double learning_rate_now() const;
  std::vector<int64_t> update_numbers() const;
  void share_losses();
  void share_used();
  void update(StepReport& report);
  bool floats_hold_gradients(double norm);
  std::string first_bad();
  void skip(StepReport& report);
  std::vector<at::Tensor> averaged_params() const;
  void drop_averaged_gradients();
  void forget();
  double divisor() const;
  double mean_factor(double num_targets) const;

  EngineResources& own_;
  EngineUnits& units_;
  EngineForward& forward_;
  EngineValues& values_;
  int64_t num_steps_ = 0;
  int64_t optimizer_start_ = 0;  // num_steps_ when the optimizer's state was new
  std::vector<int64_t> starts_;  // the same of each parameter
  LossScaleState loss_scale_;    // of this step; 1 but in fp16
  std::optional<double> lr_;     // instead of the schedule's
  Gradient gradient_ = Gradient::kOpen;
  bool was_clipped_ = false;  // the gradient of the latest update
  // Of this rank's passes since the last step.
  std::vector<at::Tensor> losses_;  // scalars of type double
  std::vector<double> targets_;
  // Of all ranks, while they are told: (micro-batches, {loss, targets}).
  std::vector<double> sums_;
  // Once gradients are finished: of all ranks, and this rank's share.
  double loss_total_ = 0, target_total_ = 0;
  GradientNorm norm_;
  std::vector<int64_t> used_;  // with kLeave: of each parameter, did any rank's pass use
                               // it?
};

}  // namespace zero
