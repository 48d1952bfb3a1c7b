#include "engine/engine_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "base/text.h"
#include "engine/device/host_device.h"
#include "engine/options/check_options.h"
#include "engine/step/torch/ignored_gradients.h"
#include "engine/unit/inner_graph.h"
#include "engine/unit/unit_call.h"
#include "zero/errors.h"
#include "zero/lr_schedule.h"

namespace zero {
namespace {

[[noreturn]] void refuse_loss(const std::string& what, const std::string& cure) {
  reject(what, "Engine::backward", cure);
}

void require_loss(const at::Tensor& loss_sum, int64_t num_targets,
                  const Options& options) {
  if (loss_sum.numel() != 1)
    refuse_loss("the loss has " + std::to_string(loss_sum.numel()) + " values",
                "pass its sum");
  if (options.inference)
    refuse_loss("the engine was made for inference", "Options::inference = false");
  if (c10::InferenceMode::is_enabled())
    refuse_loss("backward() inside c10::InferenceMode", "call it outside");
  if (!loss_sum.is_floating_point())
    refuse_loss(
        std::string("the loss is of type ") + c10::toString(loss_sum.scalar_type()),
        "pass a real number");
  if (!loss_sum.requires_grad())
    refuse_loss(
        "the loss needs no gradient",
        "run forward outside torch::NoGradGuard, with a parameter that is trained");
  if (num_targets < 0)
    refuse_loss("num_targets is " + std::to_string(num_targets),
                "count this micro-batch's targets");
}

// Of so many digits that no other float has them.
std::string exact(float value) {
  std::ostringstream text;
  text.precision(std::numeric_limits<float>::max_digits10);
  text << value;
  return text.str();
}

constexpr double kLargest = std::numeric_limits<float>::max();

constexpr char kPlanPasses[] =
    "set Options::micro_batches_per_rank to the number of backward() calls between two "
    "steps";

}  // namespace

EngineStep::EngineStep(EngineResources& own, EngineUnits& units, EngineForward& forward,
                       EngineValues& values)
    : own_(own),
      units_(units),
      forward_(forward),
      values_(values),
      starts_(own.model.params.size(), 0),
      norm_(own.options.norm) {
  if (own.options.dtype == DType::kFp16) loss_scale_.scale = own.options.loss_scale.init;
}

void EngineStep::require_whole() const {
  if (gradient_ != Gradient::kBroken) return;
  reject("the last backward() failed", "zero::Engine",
         "discard_gradients() forgets the step's gradient, then go on");
}

// The counter of deterministic mode and the rounded sum of a bf16 gradient have no place
// for more passes than planned.
void EngineStep::require_room() const {
  if (gradient_ == Gradient::kFinished)
    refuse_loss("backward() after full_gradient() or a step() that threw",
                "call step() or discard_gradients() first");
  const Options& options = own_.options;
  const auto num_passes = static_cast<int64_t>(losses_.size());
  const bool has_groups = own_.mesh().num_groups() > 1;
  const bool has_fixed_passes =
      options.deterministic || has_groups || options.grad_dtype == DType::kBf16;
  if (!has_fixed_passes || num_passes != options.micro_batches_per_rank) return;
  refuse_loss("backward() number " + std::to_string(num_passes + 1) + " of a step, " +
                  (options.deterministic ? "in deterministic mode"
                   : has_groups          ? "with several groups of ranks"
                                         : "with grad_dtype bf16") +
                  " planned for " + std::to_string(num_passes),
              kPlanPasses);
}

void EngineStep::backward(const at::Tensor& loss_sum, int64_t num_targets) {
  require_loss(loss_sum, num_targets, own_.options);
  units_.phase.require_idle("backward()");
  forward_.require_default_stream("backward()");
  require_whole();
  require_room();
  const Activity::Stretch stretch("backward");
  const StreamClock::Span span = own_.timed(Work::kRunning, "backward");
  delay_point("backward");
  // A copy, which nobody changes, and nobody reads before step().
  const at::Tensor loss = loss_sum.detach().reshape({}).to(
      own_.torch_device(), at::kDouble, may_go_on(loss_sum), /*copy=*/true);
  run_backward(loss_sum, num_targets);
  losses_.push_back(loss);
  targets_.push_back(static_cast<double>(num_targets));
}

void EngineStep::run_backward(const at::Tensor& loss_sum, int64_t num_targets) {
  forward_.require_requires_grad();
  const GraphWalk walk = walk_graph({loss_sum});
  std::vector<at::Tensor> others = units_.borders.other_leaves(walk.ends, 0, nullptr);
  std::vector<std::pair<int, BackwardPass::CallId>> calls;
  for (UnitCall* call : walk.calls) {
    call->require_backward();
    if (!call->belongs_to(units_.phase)) continue;
    calls.emplace_back(call->unit(), call);
    const auto& inside = call->other_leaves();
    others.insert(others.end(), inside.begin(), inside.end());
  }
  // One of a forward may reach none, where all that it used is frozen.
  if (calls.empty() && others.size() == walk.ends.leaves.size() &&
      !forward_.has_results_in(walk.nodes))
    refuse_loss("the loss reaches no parameter of this engine",
                "compute it from what this engine's forward() returned");
  forward_.begin_backward(walk.nodes);
  drop_stray_gradients();
  // Of units that forward did not use, too: gradients get new values.
  own_.updates->finish_before_compute();
  gradient_ = Gradient::kBroken;  // unless all of it is done
  expect_update(num_targets);
  const Scoped in_backward(units_.phase.now, Phase::Now::kBackward);
  OtherLeaves leaves(others, divisor());
  units_.pass.begin(calls);
  const at::AutoGradMode with_grad(true);  // whatever the caller's guard says
  loss_sum.div(divisor()).backward();
  units_.pass.end();
  leaves.finish();
  gradient_ = Gradient::kOpen;
  forward_.end_backward();
}

// The last backward of a step lets units be updated as it finishes their gradients: all
// is known by then but what it will be clipped with. Where the step before was clipped,
// this one probably will be, and no draft of it taken.
void EngineStep::expect_update(int64_t num_targets) {
  const auto num_passes = static_cast<int64_t>(losses_.size()) + 1;
  if (!own_.memory.has_drafts() || was_clipped_ ||
      num_passes != own_.options.micro_batches_per_rank)
    return;
  int64_t total = num_targets;
  for (const double targets : targets_) total += static_cast<int64_t>(targets);
  own_.control->all_reduce(std::span(&total, 1), ReduceOp::kSum, "targets");
  if (total == 0) return;
  own_.updates->expect(update_numbers(), learning_rate_now(),
                       static_cast<float>(mean_factor(static_cast<double>(total))));
}

// Of Options::ignored, those whose gradients are averaged.
std::vector<at::Tensor> EngineStep::averaged_params() const {
  std::vector<at::Tensor> params;
  for (const IgnoredParam& param : own_.model.ignored) {
    if (param.averaged) params.push_back(param.tensor);
  }
  return params;
}

void EngineStep::drop_averaged_gradients() {
  for (const at::Tensor& param : averaged_params()) param.mutable_grad().reset();
}

// What other backwards left in .grad is nobody's.
void EngineStep::drop_stray_gradients() {
  for (const at::Tensor& tensor : own_.model.tensors) tensor.mutable_grad().reset();
}

void EngineStep::discard() {
  units_.phase.require_idle("discard_gradients()");
  own_.gradients->discard();
  drop_stray_gradients();
  drop_averaged_gradients();
  forget();
  forward_.release_unneeded_root();
}

void EngineStep::forget() {
  losses_.clear();
  targets_.clear();
  gradient_ = Gradient::kOpen;
  forward_.end_step();
}

void EngineStep::finish_gradients() {
  if (gradient_ == Gradient::kFinished) return;
  forward_.release_unneeded_root();
  share_losses();
  share_used();
  norm_ = own_.gradients->finish();
  loss_total_ = target_total_ = 0;
  for (size_t i = 0; i < sums_.size(); i += 2) {
    loss_total_ += sums_[i];
    target_total_ += sums_[i + 1];
  }
  gradient_ = Gradient::kFinished;
}

void EngineStep::share_losses() {
  const Mesh& mesh = own_.mesh();
  const auto num_passes = std::ssize(losses_);
  sums_.assign(2 * mesh.size * num_passes, 0.0);
  const at::Tensor own = losses_.empty() ? at::Tensor() : at::stack(losses_).cpu();
  for (int64_t p = 0; p < num_passes; ++p) {
    const int64_t place = 2 * mesh.micro_batch(own_.rank(), p, num_passes);
    sums_[place] = own.const_data_ptr<double>()[p];
    sums_[place + 1] = targets_[p];
  }
  // In the name, what all ranks must update with: who differs is told.
  own_.share(sums_, text_of("losses of step ", num_steps_ + 1, ", rate ",
                            exact(static_cast<float>(learning_rate_now())),
                            ", loss scale ", loss_scale_.scale));
}

void EngineStep::share_used() {
  if (own_.options.unused == Unused::kZeros) return;
  used_ = own_.gradients->used();
  own_.control->all_reduce(std::span<int64_t>(used_), ReduceOp::kMax, "used parameters");
}

// Backward runs on loss_sum / divisor(). The scale is a power of two: what it multiplies
// and what divides by it later are the same bits as without it.
double EngineStep::divisor() const {
  return own_.options.nominal_targets / static_cast<double>(loss_scale_.scale);
}

// Sums of loss_sum / divisor() become a mean over all targets.
double EngineStep::mean_factor(double num_targets) const {
  return num_targets > 0 ? divisor() / num_targets : 0;
}

void EngineStep::require_passes() const {
  if (losses_.empty())
    reject("step() without backward()", "Engine::step",
           "call backward() once per micro-batch");
  const auto num_passes = static_cast<int64_t>(losses_.size());
  const int64_t num_planned = own_.options.micro_batches_per_rank;
  if (own_.options.deterministic && num_passes != num_planned)
    reject("step() after " + std::to_string(num_passes) +
               " backward() calls, in deterministic mode planned for " +
               std::to_string(num_planned),
           "Engine::step", kPlanPasses);
}

// Nothing would be learned, but weights would decay.
void EngineStep::require_targets() const {
  if (target_total_ > 0) return;
  reject("step() without a target on any rank", "Engine::step",
         "leave out batches whose targets are all masked; discard_gradients() forgets "
         "this one");
}

StepReport EngineStep::finish() {
  units_.phase.require_idle("step()");
  forward_.require_default_stream("step()");
  require_whole();
  require_passes();
  const Activity::Stretch stretch("step");
  // All that is left to compute is on the host.
  const StreamClock::Span span = own_.timed(Work::kRunning, "step");
  const StreamClock::Span waiting = own_.timed(Work::kWaiting, "wait for gradients");
  finish_gradients();
  StepReport report;
  report.num_targets = static_cast<int64_t>(target_total_);
  report.loss = target_total_ > 0 ? loss_total_ / target_total_ : 0;
  require_targets();
  report.lr = learning_rate_now();
  report.grad_norm = norm_.reduce(mean_factor(), *own_.control);
  const bool is_finite = std::isfinite(report.grad_norm) && std::isfinite(report.loss) &&
                         floats_hold_gradients(report.grad_norm);
  is_finite ? update(report) : skip(report);
  report.step = num_steps_;
  if (own_.options.dtype == DType::kFp16) {
    report.loss_scale = loss_scale_.scale;
    loss_scale_ = next(loss_scale_, report.skipped, own_.options.loss_scale);
  }
  forget();
  if (own_.options.average_buffers_each_step) values_.average_buffers();
  return report;
}

double EngineStep::learning_rate_now() const {
  return lr_.value_or(learning_rate(own_.options.schedule, num_steps_));
}

// Of each parameter's optimizer state.
std::vector<int64_t> EngineStep::update_numbers() const {
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < starts_.size(); ++i)
    numbers.push_back(own_.rests[i] ? 0 : num_steps_ - starts_[i] + 1);
  return numbers;
}

// The next forward waits for each unit's own update.
void EngineStep::update(StepReport& report) {
  report.clip_coef = clip_coefficient(report.grad_norm, own_.options.clip);
  was_clipped_ = report.clip_coef < 1;
  const auto factor = static_cast<float>(mean_factor() * report.clip_coef);
  std::vector<int64_t> numbers = update_numbers();
  for (size_t i = 0; i < numbers.size(); ++i) {
    const bool is_used = own_.options.unused == Unused::kZeros || used_[i] > 0;
    if (is_used && numbers[i] > 0) continue;
    numbers[i] = 0;
    ++starts_[i];  // its count stands still
  }
  own_.device->compute_stream().synchronize();  // a forward may still read the weights
  own_.updates->begin(std::move(numbers), report.lr, factor);
  average_gradients(averaged_params(), 1 / target_total_, *own_.control);
  report.num_drafts = own_.updates->num_drafts();
  report.num_drafts_taken = own_.updates->num_taken();
  ++num_steps_;
  forward_.weights_changed(/*frozen_too=*/false);
}

// As the update takes them. None is larger than their norm, so that they are seldom read.
bool EngineStep::floats_hold_gradients(double norm) {
  return norm * clip_coefficient(norm, own_.options.clip) <= kLargest ||
         first_bad().empty();
}

std::string EngineStep::first_bad() {
  std::vector<std::string> fqns;
  for (const ParamDescription& param : own_.model.params) fqns.push_back(param.fqn);
  return first_non_finite(own_.plan, fqns, *own_.shards,
                          static_cast<float>(mean_factor()), *own_.control);
}

void EngineStep::skip(StepReport& report) {
  report.skipped = true;
  report.clip_coef = 0;
  drop_averaged_gradients();
  report.first_bad = first_bad();
  if (report.first_bad.empty()) report.first_bad = "loss";
}

void EngineStep::set_num_steps(int64_t steps, int64_t optimizer_start) {
  if (optimizer_start < 0 || steps < optimizer_start)
    reject("set_num_steps(" + std::to_string(steps) + ", " +
               std::to_string(optimizer_start) + ")",
           "zero::Engine", "0 <= optimizer_start <= steps");
  num_steps_ = steps;
  optimizer_start_ = optimizer_start;
  std::ranges::fill(starts_, optimizer_start);
}

void EngineStep::set_optimizer_start(size_t param, int64_t start) {
  if (start < 0 || start > num_steps_)
    reject("an optimizer's start of " + std::to_string(start),
           own_.model.params[param].fqn,
           "0 to num_steps() = " + std::to_string(num_steps_));
  starts_[param] = start;
}

void EngineStep::set_learning_rate(double lr) {
  check_learning_rate(own_.options, lr);
  lr_ = lr;
}

void EngineStep::set_loss_scale(const LossScaleState& state) {
  units_.phase.require_idle("set_loss_scale()");
  if (!is_loss_scale(state.scale) || state.num_clean < 0)
    reject("a loss scale of " + std::to_string(state.scale) + " after " +
               std::to_string(state.num_clean) + " clean steps",
           "Engine::set_loss_scale", "a power of two, after 0 steps or more");
  if (own_.options.dtype != DType::kFp16 && state != LossScaleState{})
    reject("a loss scale where the dtype is " + std::string(name_of(own_.options.dtype)),
           "Engine::set_loss_scale", "Options::dtype = DType::kFp16");
  if (!losses_.empty())
    reject("another loss scale in the middle of a step", "Engine::set_loss_scale",
           "step() or discard_gradients() first");
  loss_scale_ = state;
  loss_scale_.scale = std::max(state.scale, own_.options.loss_scale.min);
}

}  // namespace zero
