#include "engine/engine_forward.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "engine/weights/torch/flat_params.h"
#include "zero/errors.h"

namespace zero {

// What random numbers inside this forward depend on.
uint64_t EngineForward::key(int64_t num_steps, size_t num_passes) {
  const bool trains = torch::GradMode::is_enabled();
  counted_in_ = trains ? &num_forwards_ : &num_forwards_without_grad_;
  const auto micro_batch = static_cast<uint64_t>(
      own_.mesh().micro_batch(own_.rank(), static_cast<int64_t>(num_passes),
                              own_.options.micro_batches_per_rank));
  return forward_seed(own_.options.seed, num_steps, micro_batch, trains,
                      (*counted_in_)++);
}

void EngineForward::begin(int64_t num_steps, size_t num_passes) {
  require_requires_grad();
  require_default_stream("forward()");
  const bool trains = torch::GradMode::is_enabled();
  // Once a step: nobody would gather or train them.
  if (trains && num_passes == 0) require_no_others();
  span_.emplace(own_.device->clock(), own_.device->compute_stream(), Work::kRunning,
                "forward");
  if (root_ == Root::kReleased)
    hold_root(trains ? Root::kHeldForBackward : Root::kHeldByForward);
  units_.phase.now = Phase::Now::kForward;
  stretch_.emplace("forward");
  // Values are compared in the first.
  root_watch_ = units_.weights.watch(0, /*compares_values=*/!root_watch_.has_value(),
                                     /*may_restore=*/false);
  if (trains) pending_.begin_forward(units_.phase.weights_version);
  seed_.emplace(key(num_steps, num_passes), trains || own_.root->is_training(),
                own_.torch_device());
}

at::Tensor& EngineForward::cast(at::Tensor& argument) {
  if (!argument.defined()) return argument;
  const c10::Device device = own_.torch_device();
  const at::Tensor here =
      argument.device() == device ? argument : argument.to(device, may_go_on(argument));
  const at::Tensor tensor = in_compute_type(here, own_.plan.units[0].dtype);
  return tensor.is_same(argument) ? argument : cast_arguments_.emplace_back(tensor);
}

// Weights go away: what lies in them is copied, as part of the graph.
void EngineForward::add_result(at::Tensor& result) {
  if (is_flat(result)) result = result.clone();
  if (torch::GradMode::is_enabled() && result.defined()) pending_.add_result(result);
}

// The weights are there still: what a forward did to them is found out now.
void EngineForward::finish() {
  const std::string changed = units_.weights.first_changed(0, *root_watch_);
  if (!changed.empty() && !units_.weights.may_change(0))
    units_.weights.refuse_change(0, *root_watch_, changed);
  root_watch_->values.reset();  // nobody brings them back now
  units_.phase.now = Phase::Now::kIdle;
}

void EngineForward::end() {
  const bool threw = units_.phase.now == Phase::Now::kForward;
  units_.phase.now = Phase::Now::kIdle;
  stretch_.reset();
  span_.reset();
  seed_.reset();
  cast_arguments_.clear();
  if (root_ == Root::kHeldByForward) release_root();
  uint64_t* const counter = std::exchange(counted_in_, nullptr);
  if (!threw) return;
  if (counter) --*counter;  // as if it had not happened
  release_unneeded_root();  // no graph of its own is left
}

void EngineForward::begin_backward(
    const std::unordered_set<torch::autograd::Node*>& nodes) {
  pending_.begin_backward(nodes, units_.phase.weights_version);
  if (root_ == Root::kReleased) hold_root(Root::kHeldForBackward);
}

void EngineForward::end_backward() {
  num_forwards_ = 0;
  release_unneeded_root();
}

void EngineForward::hold_root(Root root) {
  units_.weights.unshard(0, WeightStreamer::Direction::kForward);
  root_ = root;
}

void EngineForward::release_root() {
  if (root_ != Root::kReleased) units_.weights.reshard(0);
  root_ = Root::kReleased;
}

// Graphs that may still get a backward read the root's weights.
void EngineForward::release_unneeded_root() {
  if (!has_pending()) release_root();
}

void EngineForward::weights_changed(bool frozen_too) {
  release_root();
  units_.weights.invalidate(frozen_too);
  ++units_.phase.weights_version;
  for (const at::Tensor& tensor : own_.model.tensors)
    tensor.unsafeGetTensorImpl()->bump_version();
}

void EngineForward::require_requires_grad() const {
  const ScannedModel& model = own_.model;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const bool is_trained = model.tensors[i].requires_grad();
    if (is_trained == !own_.is_frozen(i)) continue;
    reject(std::string("requires_grad was switched ") + (is_trained ? "on" : "off") +
               " after the engine was made",
           model.params[i].fqn,
           "freeze parameters before, by a group (Options::groups = {{\"" +
               model.params[i].fqn +
               "\", 1, {}, /*frozen=*/true}}), or by Engine::set_frozen()");
  }
}

void EngineForward::require_own(const torch::nn::Module& module) const {
  if (&module == own_.root.get()) return;
  std::unordered_set<const c10::TensorImpl*> ours;
  for (const at::Tensor& tensor : own_.model.tensors)
    ours.insert(tensor.unsafeGetTensorImpl());
  for (const IgnoredParam& param : own_.model.ignored)
    ours.insert(param.tensor.unsafeGetTensorImpl());
  for (const auto& item : module.named_parameters()) {
    const at::Tensor& param = item.value();
    if (!param.defined() || !param.requires_grad()) continue;
    if (ours.contains(param.unsafeGetTensorImpl())) continue;
    reject("forward() of a module with a parameter that this engine does not train",
           item.key(), "pass the model that the engine was made with, or a part of it");
  }
}

void EngineForward::require_no_others() const {
  const auto is_ours = [&](const at::Tensor& tensor) {
    return is_flat(tensor) ||
           std::ranges::any_of(own_.model.ignored, [&](const IgnoredParam& param) {
             return param.tensor.is_same(tensor);
           });
  };
  for (const auto& item : own_.root->named_parameters()) {
    if (is_ours(item.value())) continue;
    reject("a parameter came after the engine was made", item.key(),
           "register all modules first, or make another engine");
  }
}

void EngineForward::require_default_stream(const std::string& call) const {
  const c10::Device here = own_.torch_device();
  if (here.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(here.type());
  if (guard.getStream(here) == guard.getDefaultStream(here)) return;
  reject(call + " in a CUDA stream of the caller's own", "zero::Engine",
         "call it in the default stream");
}

}  // namespace zero
