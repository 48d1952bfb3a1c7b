#include "engine/engine.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "engine/check_options.h"
#include "engine/choose_gpu.h"
#include "engine/comm/nccl.h"
#include "engine/compute_type.h"
#include "engine/device/delays.h"
#include "engine/device/device.h"
#include "engine/device/gpu.h"
#include "engine/device/host_device.h"
#include "engine/engine_impl.h"
#include "engine/errors.h"
#include "engine/flat_params.h"
#include "engine/other_leaves.h"
#include "engine/plan/pinned_ranges.h"
#include "engine/same_options.h"
#include "engine/step/gradient_norm.h"
#include "engine/torch_memory.h"
#include "engine/unit_call.h"
#include "offload/bf16.h"
#include "offload/fp16.h"

namespace zero {
namespace {

// A GPU that cannot be used is an error here, not a slow run.
std::unique_ptr<Device> make_device(const Options& options, const GpuChoice& gpu) {
  if (gpu.index < 0) {
    HostDeviceOptions host;
    host.chaos_seed = options.chaos_seed;
    return make_host_device(host);
  }
  if (at::hasCUDA())
    return make_gpu(gpu.index, {.chaos_seed = options.chaos_seed,
                                .memory_limit = options.device_memory / gpu.num_ranks});
  throw Error(ExitCode::kEnvironment,
              "LibTorch was asked for CUDA before its part for CUDA was loaded",
              "--device (Options::device)",
              "call zero::num_gpus() first, or link libtorch_cuda; or --device cpu");
}

std::unique_ptr<Ranks> choose_ranks(std::unique_ptr<Ranks> given,
                                    const Options& options) {
  std::unique_ptr<Ranks> ranks = given ? std::move(given) : make_ranks();
  if (!options.trace_comm.empty()) ranks->trace_to(options.trace_comm);
  return ranks;
}

// A copy of memory of the host that is not pinned is done when the call returns, though
// the GPU may not have it yet. Others must be waited for.
bool may_go_on(const at::Tensor& source) {
  return source.is_cpu() && !source.is_pinned();
}

// What a merged holder needs of an engine: random numbers that do not depend on what was
// merged.
class MergedUnit : public UnitRunner {
 public:
  MergedUnit(std::string fqn, DType dtype) : fqn_(std::move(fqn)), dtype_(dtype) {}
  std::vector<at::Tensor> run(const UnitBody& body,
                              std::vector<UnitInput> inputs) override {
    const CallSeed seed(fqn_);
    std::vector<at::Tensor> tensors;
    for (const UnitInput& input : inputs)
      tensors.push_back(in_compute_type(input.tensor, dtype_));
    return body(tensors);
  }

 private:
  const std::string fqn_;
  const DType dtype_;
};

torch::nn::Module& require_model(const std::shared_ptr<torch::nn::Module>& model) {
  const auto refuse = [](const std::string& what, const std::string& cure) {
    throw Error(ExitCode::kUsage, what, "zero::Engine", cure);
  };
  if (!model) refuse("no model", "pass a module");
  if (c10::InferenceMode::is_enabled())
    refuse("an engine made inside c10::InferenceMode",
           "make it outside; Options::inference keeps weights alone");
  for (const at::Tensor& tensor : model->parameters()) {
    if (tensor.is_inference())
      refuse("parameters made inside c10::InferenceMode", "make the model outside");
  }
  return *model;
}

// Of each unit of a plan. Leaves hold no other one: wherever a unit is held, what
// encloses it there is none, be it through holders that were merged.
std::vector<bool> leaves_of(const UnitPlan& plan,
                            const std::vector<UnitDescription>& units) {
  std::vector<bool> is_leaf(plan.units.size(), true);
  const auto is_planned = [&](size_t d) {
    return plan.units[plan.unit_of[d]].description == static_cast<int>(d);
  };
  const std::function<void(size_t)> mark_holders = [&](size_t d) {
    std::vector<int> holders = units[d].holders;
    if (holders.empty()) holders.push_back(units[d].parent);
    for (const int holder : holders)
      is_planned(holder) ? void(is_leaf[plan.unit_of[holder]] = false)
                         : mark_holders(holder);
  };
  for (size_t d = 1; d < units.size(); ++d) {
    if (is_planned(d)) mark_holders(d);
  }
  return is_leaf;
}

// Of each unit of a plan but the root. Graphs that a block wants to keep are kept where
// they are those of one micro-batch.
std::vector<UnitRole> roles_of(const UnitPlan& plan, const ScannedModel& model,
                               const Options& options) {
  const std::vector<bool> is_leaf = leaves_of(plan, model.units);
  std::vector<UnitRole> roles(plan.units.size());
  int64_t num_before = 0;
  for (size_t u = 1; u < roles.size(); ++u) {
    roles[u].is_leaf = is_leaf[u];
    const bool keeps_graph = model.hooks[plan.units[u].description]->keeps_graph() &&
                             options.accumulate != Accumulate::kUnit;
    if (is_leaf[u] && !keeps_graph)
      roles[u].recomputes = options.recompute.includes(num_before++);
  }
  return roles;
}

void require_free(const ScannedModel& model) {
  const auto taken = std::find_if(model.tensors.begin(), model.tensors.end(), is_flat);
  if (taken == model.tensors.end()) return;
  throw Error(ExitCode::kUsage,
              "the parameters of this model belong to a zero::Engine, or to one that is "
              "gone",
              model.params[taken - model.tensors.begin()].fqn,
              "make one engine per model, and the model anew for another engine");
}

}  // namespace

Engine::Impl::Impl(std::shared_ptr<torch::nn::Module> module,
                   const Options& given_options, std::unique_ptr<Ranks> given)
    : root(std::move(module)),
      options(given_options),
      control(choose_ranks(std::move(given), options)),
      gpu(choose_gpu(options, *control)),
      device(make_device(options, gpu)),
      threads(checked_threads(options)),
      model(scan_model(require_model(root))) {
  require_same_options(options, model, *control);
  check(options, control->size(), unit_memory(gpu));
  require_free(model);
  if (device->has_own_memory()) arithmetic.emplace(options);
  if (options.dtype == DType::kFp16) loss_scale.scale = options.loss_scale.init;
  plan = make_unit_plan(model.units, model.params, options, control->size());
  memory = make_memory_plan(plan, options, control->size(), unit_memory(gpu));
  make_collectives();
  comm_stream = device->make_stream("communication");
  // What several ranks exchange is waited for in callbacks, which a GPU may run one after
  // the other, whatever their streams.
  if (device->has_own_memory() && control->size() == 1)
    out_stream = device->make_stream("copy out");
  shards = std::make_unique<ShardStore>(plan, memory, *device);
  if (memory.has_state_on_gpu()) kernels = make_shard_kernels(*device, options.norm);
  updates = std::make_unique<UpdateQueue>(plan, memory, options, comm->rank(), *shards,
                                          *device, kernels.get(), threads);
  updates->touch();
  pin_shards();
  gradients =
      std::make_unique<GradientShards>(plan, memory, options, *shards, *device, *comm,
                                       reduce_stream(), kernels.get(), threads);
  set_first_values();
  weights = std::make_unique<WeightStreamer>(plan, memory, options, *shards,
                                             model.tensors, *device, *comm, *comm_stream,
                                             updates->all_updated());
  pass = std::make_unique<BackwardPass>(plan, *gradients, *weights);
  if (options.offload_activations && !options.inference)
    activations = std::make_shared<ActivationStore>(*device, options);
  if (device_memory() > 0)
    limit_torch_memory(gpu.index, device_memory() - device->allocated_bytes());
  attach();
}

// Whole parameters are gathered in the host's memory, whatever the device.
void Engine::Impl::make_collectives() {
  host_comm = control->make_collectives();
  if (!device->has_own_memory()) {
    comm = host_comm;
  } else if (control->size() == 1) {
    comm = make_lone_collectives();
  } else if (unit_memory(gpu) == UnitMemory::kGpu) {
    if (memory.exchange_bytes > 0)
      exchange_of_gpu = device->allocate("exchange", memory.exchange_bytes);
    comm =
        make_nccl_collectives(*control, *device, exchange_of_gpu, memory.exchange_bytes);
  } else {
    exchange = std::make_unique<HostArena>("exchange", memory.exchange_bytes);
    pinned_exchange.emplace(*device, exchange->data(), exchange->capacity_bytes());
    const std::span<std::byte> all(exchange->data(), exchange->capacity_bytes());
    comm = make_staged_collectives(control->make_collectives(), *device, all);
  }
}

void Engine::Impl::pin_shards() {
  try {
    for (const auto& [begin, end] :
         pinned_ranges(plan, memory, options.pin, sysconf(_SC_PAGESIZE)))
      pinned_shards.emplace_back(*device, shards->memory() + begin, end - begin);
  } catch (const Error& error) {
    if (options.pin == Pin::kTransfers) throw;
    throw Error(error.code(), error.problem(), error.where(),
                "--pin transfers (Options::pin), which pins less; " + error.cure());
  }
}

// What this rank may take of its GPU; 0: what there is.
int64_t Engine::Impl::device_memory() const {
  return device->has_own_memory() ? options.device_memory / gpu.num_ranks : 0;
}

Engine::Impl::~Impl() {
  for (UnitHook* hook : model.hooks) {
    if (hook) hook->runner.reset();
  }
  for (const auto& runtime : runtimes) runtime->detach();
  // Nothing may write into memory that goes away now.
  for (Stream* stream : {comm_stream.get(), &reduce_stream()}) {
    try {
      stream->synchronize();
    } catch (const std::exception&) {
      // whoever waited for this work has been told already
    }
  }
  if (activations) activations->close();
  comm.reset();
  device->free(exchange_of_gpu);
  if (device_memory() > 0) unlimit_torch_memory(gpu.index);
}

void Engine::Impl::attach() {
  const c10::Device here = torch_device();
  for (at::Tensor& buffer : model.buffers) {
    if (buffer.device() != here) buffer.set_data(buffer.to(here));
  }
  const std::vector<UnitRole> roles = roles_of(plan, model, options);
  for (size_t d = 1; d < model.units.size(); ++d) {
    const int unit = plan.unit_of[d];
    const std::string& fqn = model.units[d].fqn;
    if (plan.units[unit].description != static_cast<int>(d)) {
      model.hooks[d]->runner = std::make_shared<MergedUnit>(fqn, options.dtype);
      continue;
    }
    runtimes.push_back(std::make_shared<UnitRuntime>(unit, fqn, *model.modules[d],
                                                     roles[unit], here, options, phase,
                                                     *weights, *pass, activations));
    model.hooks[d]->runner = runtimes.back();
  }
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    model.tensors[i].set_requires_grad(!plan.rules[i].frozen);
  }
}

void Engine::Impl::refresh_copies() {
  Stream& compute = device->compute_stream();
  for (size_t p = 0; p < plan.parts.size(); ++p) {
    const PartShard& shard = (*shards)[p];
    const DType type = plan.parts[p].dtype;
    const int64_t numel = plan.parts[p].layout.shard_numel;
    const auto convert = type == DType::kFp16 ? convert_to_fp16 : convert_to_bf16;
    const bool has_copy = shard.copy && shard.master;
    if (has_copy && shard.gpu)
      kernels->round(shard.copy, type, shard.master, numel, compute);
    else if (has_copy)
      convert(shard.master, shard.copy, numel);
    if (shard.weights_on_gpu)
      compute.copy(shard.weights_on_gpu, shard.own_weights(), numel * size_of(type));
  }
  compute.synchronize();
}

// What random numbers inside this forward depend on.
uint64_t Engine::Impl::forward_key() {
  const bool trains = torch::GradMode::is_enabled();
  const auto micro_batch =
      static_cast<uint64_t>(losses.size()) * comm->size() + comm->rank();
  return zero::forward_seed(options.seed, num_steps, micro_batch, trains,
                            trains ? num_forwards++ : num_forwards_without_grad++);
}

void Engine::Impl::begin_forward() {
  require_values("forward()");
  require_idle("forward()");
  require_whole();
  require_requires_grad();
  require_default_stream();
  const bool trains = torch::GradMode::is_enabled();
  if (trains) require_no_others();
  scope_is_finished = false;
  forward_span.emplace(device->clock(), device->compute_stream(), Work::kRunning,
                       "forward");
  if (!root_is_held) {
    weights->unshard(0, WeightStreamer::Direction::kForward);
    scope_holds_root = !trains;
    root_is_held = trains;
  }
  phase.is_in_forward = true;
  forward_stretch.emplace("forward");
  root_watch = weights->watch(0, /*compares_values=*/!has_compared_root);
  has_compared_root = true;
  if (trains) pending.begin(phase.weights_version);
  forward_seed.emplace(forward_key(), trains || root->is_training(), torch_device());
}

// The weights are there still: what a forward did to them is found out now.
void Engine::Impl::finish_forward() {
  scope_is_finished = true;
  const std::string changed = weights->first_changed(0, *root_watch);
  if (changed.empty() || weights->is_in_place(0)) return;
  weights->restore(0, *root_watch);
  scope_is_finished = false;
  throw Error(
      ExitCode::kUsage, "a forward changes a parameter in place", changed,
      "keep it as it is in forward (an embedding's max_norm changes it, too), and "
      "change it between steps with set_full_parameter");
}

void Engine::Impl::end_forward() {
  phase.is_in_forward = false;
  forward_stretch.reset();
  forward_span.reset();
  forward_seed.reset();
  cast_arguments.clear();
  if (scope_holds_root) weights->reshard(0);
  scope_holds_root = false;
  // It threw: no graph of its own is left.
  if (!scope_is_finished) release_unneeded_root();
}

void Engine::Impl::hold_root() {
  if (!root_is_held) weights->unshard(0, WeightStreamer::Direction::kForward);
  root_is_held = true;
}

void Engine::Impl::release_root() {
  if (root_is_held) weights->reshard(0);
  root_is_held = false;
}

// Graphs that may still get a backward read the root's weights.
void Engine::Impl::release_unneeded_root() {
  if (!pending.any(phase.weights_version)) release_root();
}

void Engine::Impl::require_requires_grad() const {
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const bool is_trained = model.tensors[i].requires_grad();
    if (is_trained == !plan.rules[i].frozen) continue;
    throw Error(ExitCode::kUsage,
                std::string("requires_grad was switched ") + (is_trained ? "on" : "off") +
                    " after the engine was made",
                model.params[i].fqn,
                "freeze parameters before, or by a group: Options::groups = {{\"" +
                    model.params[i].fqn + "\", 1, {}, /*frozen=*/true}}");
  }
}

// Looked at once a step: nobody would gather or train them.
void Engine::Impl::require_no_others() const {
  if (!losses.empty()) return;
  const std::vector<at::Tensor> params = root->parameters();
  if (std::ranges::all_of(params, is_flat)) return;
  for (const auto& item : root->named_parameters()) {
    if (is_flat(item.value())) continue;
    throw Error(ExitCode::kUsage, "a parameter came after the engine was made",
                item.key(), "register all modules first, or make another engine");
  }
}

// The engine's own streams wait for that one, and it for them.
void Engine::Impl::require_default_stream() const {
  const c10::Device here = torch_device();
  if (here.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(here.type());
  if (guard.getStream(here) == guard.getDefaultStream(here)) return;
  throw Error(ExitCode::kUsage, "forward() in a CUDA stream of the caller's own",
              "zero::Engine", "call it in the default stream");
}

// Hooks and bodies run in the middle of a forward or a backward.
void Engine::Impl::require_idle(const std::string& call) const {
  if (!phase.is_in_forward && !phase.is_in_backward) return;
  throw Error(ExitCode::kUsage, call + " inside forward() or backward()", "zero::Engine",
              "call it afterwards");
}

// Masters are no values before a checkpoint's are there.
void Engine::Impl::require_values(const std::string& call) const {
  if (!awaits_values) return;
  throw Error(ExitCode::kUsage, call + " before the weights are there",
              "zero::Engine with Source::kCheckpoint",
              "load_checkpoint() or load_safetensors() first; Source::kInit "
              "(Options::source) starts without a checkpoint");
}

// After a backward that threw, nobody knows what of the gradient is there.
void Engine::Impl::require_whole() const {
  if (!is_broken) return;
  throw Error(ExitCode::kUsage, "the last backward() failed", "zero::Engine",
              "discard_gradients() forgets the step's gradient, then go on");
}

// What other backwards left in .grad is nobody's.
void Engine::Impl::drop_stray_gradients() {
  for (const at::Tensor& tensor : model.tensors) tensor.mutable_grad().reset();
}

void Engine::Impl::run_backward(const at::Tensor& loss_sum) {
  require_requires_grad();
  const GraphWalk walk = walk_graph({loss_sum});
  std::vector<std::pair<int, BackwardPass::CallId>> calls;
  for (UnitCall* call : walk.calls) {
    call->require_backward();
    if (call->belongs_to(phase)) calls.emplace_back(call->unit(), call);
  }
  pending.take(walk.nodes, phase.weights_version);
  drop_stray_gradients();
  hold_root();
  // Of units that forward did not use, too: gradients get new values.
  updates->finish_before_compute();
  is_broken = true;
  const PhaseFlag in_backward(phase.is_in_backward);
  OtherLeaves leaves(walk.nodes, model.tensors, divisor());
  pass->begin(calls);
  const at::AutoGradMode with_grad(true);  // whatever the caller's guard says
  loss_sum.div(divisor()).backward();
  pass->end();
  leaves.finish();
  is_broken = false;
  release_unneeded_root();
}

void Engine::Impl::forget_step() {
  losses.clear();
  targets.clear();
  gradients_are_finished = false;
  num_forwards = num_forwards_without_grad = 0;
}

// Wait for the reductions, and sum losses and targets over all micro-batches in their
// global order.
void Engine::Impl::finish_gradients() {
  if (gradients_are_finished) return;
  release_unneeded_root();
  const size_t size = comm->size(), rank = comm->rank(), num_passes = losses.size();
  sums.assign(2 * size * num_passes, 0.0);
  const at::Tensor own = num_passes > 0 ? at::stack(losses).cpu() : at::Tensor();
  for (size_t p = 0; p < num_passes; ++p) {
    sums[2 * (p * size + rank)] = own.const_data_ptr<double>()[p];
    sums[2 * (p * size + rank) + 1] = targets[p];
  }
  // Where reductions run, too: ranks that made other calls find out here.
  comm->all_reduce(std::span<double>(sums), SumOrder::kTree, "losses", reduce_stream());
  norm = gradients->finish();
  loss_total = target_total = 0;
  for (size_t i = 0; i < sums.size(); i += 2) {
    loss_total += sums[i];
    target_total += sums[i + 1];
  }
  gradients_are_finished = true;
}

// Backward runs on loss_sum / divisor(). The scale is a power of two: what it multiplies
// and what divides by it later are the same bits as without it.
double Engine::Impl::divisor() const {
  return options.nominal_targets / static_cast<double>(loss_scale.scale);
}

// Sums of loss_sum / divisor() become a mean over all targets.
double Engine::Impl::mean_factor() const {
  return target_total > 0 ? divisor() / target_total : 0;
}

// The next forward waits for each unit's own update.
void Engine::Impl::begin_updates(double lr, double grad_factor) {
  updates->begin(num_steps - optimizer_start + 1, lr, static_cast<float>(grad_factor));
  ++num_steps;
  weights_changed();
}

// What was gathered is old, and graphs that were made with it are, too.
void Engine::Impl::weights_changed() {
  release_root();
  weights->invalidate();
  ++phase.weights_version;
  for (const at::Tensor& tensor : model.tensors)
    tensor.unsafeGetTensorImpl()->bump_version();
}

Engine::Engine(std::shared_ptr<torch::nn::Module> model, const Options& options,
               std::unique_ptr<Ranks> ranks)
    : impl_(std::make_unique<Impl>(std::move(model), options, std::move(ranks))) {
  if (!impl_->awaits_values) impl_->run_post_init(*this);
}

Engine::~Engine() = default;

Engine::ForwardScope::ForwardScope(Engine& engine) : engine_(engine) {
  engine_.impl_->begin_forward();
}
Engine::ForwardScope::~ForwardScope() { engine_.impl_->end_forward(); }

at::Tensor& Engine::ForwardScope::cast(at::Tensor& argument) {
  Impl& impl = *engine_.impl_;
  if (!argument.defined()) return argument;
  const c10::Device device = impl.torch_device();
  const at::Tensor here =
      argument.device() == device ? argument : argument.to(device, may_go_on(argument));
  const at::Tensor tensor = in_compute_type(here, impl.options.dtype);
  if (tensor.is_same(argument)) return argument;
  return impl.cast_arguments.emplace_back(tensor);
}
const at::Tensor& Engine::ForwardScope::cast(const at::Tensor& argument) {
  return cast(const_cast<at::Tensor&>(argument));  // which is left as it is
}
at::Tensor&& Engine::ForwardScope::cast(at::Tensor&& argument) {
  return std::move(cast(argument));
}

// Weights go away: what lies in them is copied, as part of the graph.
void Engine::ForwardScope::take(at::Tensor& result) {
  if (is_flat(result)) result = result.clone();
  if (torch::GradMode::is_enabled() && result.defined())
    engine_.impl_->pending.add_result(result);
}

void Engine::ForwardScope::finish() { engine_.impl_->finish_forward(); }

void Engine::backward(const at::Tensor& loss_sum, int64_t num_targets) {
  Impl& impl = *impl_;
  const auto refuse = [](const std::string& what, const std::string& cure) {
    throw Error(ExitCode::kUsage, what, "Engine::backward", cure);
  };
  if (loss_sum.numel() != 1)
    refuse("the loss has " + std::to_string(loss_sum.numel()) + " values",
           "pass its sum");
  if (impl.options.inference)
    refuse("the engine was made for inference", "Options::inference = false");
  if (c10::InferenceMode::is_enabled())
    refuse("backward() inside c10::InferenceMode", "call it outside");
  if (!loss_sum.is_floating_point())
    refuse(std::string("the loss is of type ") + c10::toString(loss_sum.scalar_type()),
           "pass a real number");
  if (!loss_sum.requires_grad())
    refuse("the loss needs no gradient", "run forward outside torch::NoGradGuard");
  if (num_targets < 0)
    refuse("num_targets is " + std::to_string(num_targets),
           "count this micro-batch's targets");
  impl.require_idle("backward()");
  impl.require_whole();
  if (impl.gradients_are_finished)
    refuse("backward() after full_gradient()", "call step() first");
  const auto num_passes = static_cast<int64_t>(impl.losses.size());
  // The counter of the one and the rounded sum of the other have no place for more.
  const bool has_fixed_passes =
      impl.options.deterministic ||
      (impl.options.grad_dtype != DType::kFp32 && num_passes == 1);
  if (has_fixed_passes && num_passes == impl.options.micro_batches_per_rank) {
    refuse("backward() number " + std::to_string(num_passes + 1) + " of a step, " +
               (impl.options.deterministic ? "in deterministic mode"
                                           : "with grad_dtype bf16") +
               " planned for " + std::to_string(num_passes),
           "set Options::micro_batches_per_rank to the number of backward() calls "
           "between two steps");
  }
  const Activity::Stretch stretch("backward");
  const StreamClock::Span span = impl.timed(Work::kRunning, "backward");
  delay_point("backward");
  // A copy, which nobody changes, and nobody reads before step().
  const at::Tensor loss = loss_sum.detach().reshape({}).to(
      impl.torch_device(), at::kDouble, may_go_on(loss_sum), /*copy=*/true);
  impl.run_backward(loss_sum);
  impl.losses.push_back(loss);
  impl.targets.push_back(static_cast<double>(num_targets));
  impl.num_forwards = 0;
}

void Engine::discard_gradients() {
  impl_->require_idle("discard_gradients()");
  impl_->gradients->discard();
  impl_->drop_stray_gradients();
  impl_->forget_step();
  impl_->is_broken = false;
  impl_->release_unneeded_root();
}

StepReport Engine::step() {
  Impl& impl = *impl_;
  impl.require_idle("step()");
  impl.require_whole();
  if (impl.losses.empty()) {
    throw Error(ExitCode::kUsage, "step() without backward()", "Engine::step",
                "call backward() once per micro-batch");
  }
  const Activity::Stretch stretch("step");
  const auto num_passes = static_cast<int64_t>(impl.losses.size());
  if (impl.options.deterministic && num_passes != impl.options.micro_batches_per_rank) {
    throw Error(ExitCode::kUsage,
                "step() after " + std::to_string(num_passes) +
                    " backward() calls, in deterministic mode planned for " +
                    std::to_string(impl.options.micro_batches_per_rank),
                "Engine::step",
                "set Options::micro_batches_per_rank to the number of backward() calls "
                "between two steps");
  }
  // All that is left to compute is on the host.
  const StreamClock::Span span = impl.timed(Work::kRunning, "step");
  const StreamClock::Span waiting = impl.timed(Work::kWaiting, "wait for gradients");
  impl.finish_gradients();
  StepReport report;
  report.num_targets = static_cast<int64_t>(impl.target_total);
  report.loss = impl.target_total > 0 ? impl.loss_total / impl.target_total : 0;
  report.lr = learning_rate(impl.options.schedule, impl.num_steps);
  const double factor = impl.mean_factor();
  report.grad_norm = impl.norm.reduce(factor, *impl.control);
  if (std::isfinite(report.grad_norm) && std::isfinite(report.loss)) {
    report.clip_coef = clip_coefficient(report.grad_norm, impl.options.clip);
    impl.begin_updates(report.lr, factor * report.clip_coef);
  } else {
    report.skipped = true;
    report.clip_coef = 0;
    std::vector<std::string> fqns;
    for (const ParamDescription& param : impl.model.params) fqns.push_back(param.fqn);
    report.first_bad = first_non_finite(impl.plan, fqns, *impl.shards, *impl.control);
    if (report.first_bad.empty()) report.first_bad = "loss";
  }
  report.step = impl.num_steps;
  if (impl.options.dtype == DType::kFp16) {
    report.loss_scale = impl.loss_scale.scale;
    impl.loss_scale = next(impl.loss_scale, report.skipped, impl.options.loss_scale);
  }
  impl.forget_step();
  if (impl.options.average_buffers_each_step) average_buffers();
  return report;
}

int Engine::rank() const { return impl_->comm->rank(); }
int Engine::size() const { return impl_->comm->size(); }
Ranks& Engine::control() { return *impl_->control; }
int64_t Engine::num_steps() const { return impl_->num_steps; }
int64_t Engine::optimizer_start() const { return impl_->optimizer_start; }
void Engine::set_num_steps(int64_t steps, int64_t optimizer_start) {
  if (optimizer_start < 0 || steps < optimizer_start) {
    throw Error(ExitCode::kUsage,
                "set_num_steps(" + std::to_string(steps) + ", " +
                    std::to_string(optimizer_start) + ")",
                "zero::Engine", "0 <= optimizer_start <= steps");
  }
  impl_->num_steps = steps;
  impl_->optimizer_start = optimizer_start;
}
const LossScaleState& Engine::loss_scale() const { return impl_->loss_scale; }
void Engine::set_loss_scale(const LossScaleState& state) {
  const auto refuse = [&](const std::string& what, const std::string& cure) {
    throw Error(ExitCode::kUsage, what, "Engine::set_loss_scale", cure);
  };
  impl_->require_idle("set_loss_scale()");
  if (!is_loss_scale(state.scale) || state.num_clean < 0)
    refuse("a loss scale of " + std::to_string(state.scale) + " after " +
               std::to_string(state.num_clean) + " clean steps",
           "a power of two, after 0 steps or more");
  if (impl_->options.dtype != DType::kFp16 && state != LossScaleState{})
    refuse(
        "a loss scale where the dtype is " + std::string(name_of(impl_->options.dtype)),
        "Options::dtype = DType::kFp16");
  if (!impl_->losses.empty())
    refuse("another loss scale in the middle of a step",
           "step() or discard_gradients() first");
  impl_->loss_scale = state;
  impl_->loss_scale.scale = std::max(state.scale, impl_->options.loss_scale.min);
}
const Options& Engine::options() const { return impl_->options; }
std::vector<MemoryEntry> Engine::memory() const { return impl_->memory.entries; }
bool Engine::uses_gpu() const { return impl_->device->has_own_memory(); }
c10::Device Engine::device() const { return impl_->torch_device(); }
int64_t Engine::num_gathers() const { return impl_->weights->num_gathers(); }
int64_t Engine::num_reductions() const { return impl_->gradients->num_reductions(); }

int64_t Engine::allocated_bytes() const {
  return impl_->shards->bytes() + impl_->gradients->host_bytes() +
         (impl_->exchange ? impl_->exchange->capacity_bytes() : 0) +
         impl_->device->allocated_bytes();
}

Traffic Engine::traffic() const {
  const Device::Copied copied = impl_->device->copied();
  return {copied.in, copied.out, impl_->weights->gathered_bytes(),
          impl_->gradients->reduced_bytes()};
}

StreamSeconds Engine::stream_seconds() { return impl_->device->clock().seconds(); }

OffloadedBytes Engine::offloaded_activations() const {
  return impl_->activations ? impl_->activations->bytes() : OffloadedBytes();
}

int64_t Engine::num_parameters() const {
  int64_t numel = 0;
  for (const at::Tensor& tensor : impl_->model.tensors) numel += tensor.numel();
  return numel;
}

int Engine::num_units() const {
  int count = 0;
  for (const PlannedUnit& unit : impl_->plan.units) count += unit.parts.empty() ? 0 : 1;
  return count;
}

}  // namespace zero
