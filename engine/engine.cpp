#include "zero/engine.h"

#include <torch/torch.h>

#include <algorithm>

#include "engine/engine_impl.h"
#include "engine/unit/ignored_params.h"

namespace zero {

Engine::Engine(std::shared_ptr<torch::nn::Module> model, const Options& options,
               std::unique_ptr<Ranks> ranks)
    : impl_(std::make_unique<Impl>(std::move(model), options, std::move(ranks))) {
  if (!awaits_values()) impl_->values.run_post_init(*this);
}

Engine::~Engine() = default;

Engine::ForwardScope::ForwardScope(Engine& engine) : engine_(engine) {
  Impl& impl = *engine.impl_;
  impl.values.require_there("forward()");
  impl.units.phase.require_idle("forward()");
  impl.step.require_whole();
  try {
    impl.forward.begin(impl.step.num_steps(), impl.step.num_passes());
  } catch (...) {
    impl.forward.end();
    throw;
  }
}
Engine::ForwardScope::~ForwardScope() { engine_.impl_->forward.end(); }

at::Tensor& Engine::ForwardScope::cast(at::Tensor& argument) {
  return engine_.impl_->forward.cast(argument);
}
const at::Tensor& Engine::ForwardScope::cast(const at::Tensor& argument) {
  return cast(const_cast<at::Tensor&>(argument));  // which is left as it is
}
at::Tensor&& Engine::ForwardScope::cast(at::Tensor&& argument) {
  return std::move(cast(argument));
}
void Engine::ForwardScope::add_result(at::Tensor& result) {
  engine_.impl_->forward.add_result(result);
}
void Engine::ForwardScope::finish() { engine_.impl_->forward.finish(); }

void Engine::backward(const at::Tensor& loss_sum, int64_t num_targets) {
  impl_->step.backward(loss_sum, num_targets);
}
void Engine::discard_gradients() { impl_->step.discard(); }
StepReport Engine::step() {
  StepReport report = impl_->step.finish();
  impl_->saves.end_step();
  return report;
}
Saves& Engine::saves() { return impl_->saves; }
void Engine::set_learning_rate(double lr) { impl_->step.set_learning_rate(lr); }
void Engine::require_own(const torch::nn::Module& module) const {
  impl_->forward.require_own(module);
}

void Engine::require_between_steps(const std::string& call) const {
  impl_->units.phase.require_idle(call);
  impl_->step.require_whole();
  if (impl_->step.num_passes() > 0)
    reject(call + " between backward() and step()", "zero::Engine",
           "step() or discard_gradients() first");
}

int Engine::rank() const { return impl_->own.control->rank(); }
int Engine::size() const { return impl_->own.control->size(); }
const Mesh& Engine::mesh() const { return impl_->own.mesh(); }
Ranks& Engine::control() { return *impl_->own.control; }
int64_t Engine::num_steps() const { return impl_->step.num_steps(); }
int64_t Engine::optimizer_start() const { return impl_->step.optimizer_start(); }
void Engine::set_num_steps(int64_t steps, int64_t optimizer_start) {
  impl_->step.set_num_steps(steps, optimizer_start);
}
int64_t Engine::optimizer_start(const std::string& fqn) const {
  return impl_->step.optimizer_start(impl_->values.find(fqn));
}
void Engine::set_optimizer_start(const std::string& fqn, int64_t start) {
  impl_->step.set_optimizer_start(impl_->values.find(fqn), start);
}
const LossScaleState& Engine::loss_scale() const { return impl_->step.loss_scale(); }
void Engine::set_loss_scale(const LossScaleState& state) {
  impl_->step.set_loss_scale(state);
}
const Options& Engine::options() const { return impl_->own.options; }
std::vector<MemoryEntry> Engine::memory() const { return impl_->own.memory.entries; }
bool Engine::uses_gpu() const { return impl_->own.device->has_own_memory(); }
c10::Device Engine::device() const { return impl_->own.torch_device(); }
int64_t Engine::num_gathers() const { return impl_->units.weights.num_gathers(); }
int64_t Engine::num_reductions() const { return impl_->own.gradients->num_reductions(); }

int64_t Engine::allocated_bytes() const {
  const EngineResources& own = impl_->own;
  return own.shards->bytes() + own.gradients->host_bytes() +
         (own.exchange ? own.exchange->capacity_bytes() : 0) +
         own.device->allocated_bytes() + ignored_bytes(own.model, own.options);
}

Traffic Engine::traffic() const {
  const Device::Copied copied = impl_->own.device->copied();
  const MeshBytes gathered = impl_->units.weights.gathered_bytes();
  const MeshBytes reduced = impl_->own.gradients->reduced_bytes();
  const int64_t out = copied.out - impl_->saves.bytes_from_gpu();
  return {copied.in, out, gathered.total(), reduced.total(),
          bytes_across(gathered + reduced, impl_->own.mesh(), impl_->own.far)};
}

StreamSeconds Engine::stream_seconds() { return impl_->own.device->clock().seconds(); }

OffloadedBytes Engine::offloaded_activations() const {
  const auto& activations = impl_->units.activations;
  return activations ? activations->bytes() : OffloadedBytes();
}

int64_t Engine::num_parameters() const {
  int64_t numel = 0;
  for (const at::Tensor& tensor : impl_->own.model.tensors) numel += tensor.numel();
  for (const IgnoredParam& param : impl_->own.model.ignored)
    numel += param.tensor.numel();
  return numel;
}

int Engine::num_units() const {
  return static_cast<int>(
      std::ranges::count_if(impl_->own.plan.units,
                            [](const PlannedUnit& unit) { return !unit.parts.empty(); }));
}

}  // namespace zero
