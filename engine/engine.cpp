#include "engine/engine.h"

#include <torch/torch.h>

#include <bit>
#include <cmath>
#include <optional>

#include "engine/comm/default_communicator.h"
#include "engine/comm/traced_communicator.h"
#include "engine/device/cuda_device.h"
#include "engine/device/delays.h"
#include "engine/device/host_device.h"
#include "engine/engine_impl.h"
#include "engine/errors.h"
#include "engine/init/fill_shards.h"
#include "engine/init/philox.h"
#include "engine/step/gradient_norm.h"
#include "engine/step/optimizer.h"
#include "offload/bf16.h"
#include "offload/cpu_adam.h"

namespace zero {
namespace {

void check(const Options& options, int world_size) {
  check(options.schedule);
  const auto refuse = [](const std::string& what, const std::string& cure) {
    throw Error(ExitCode::kUsage, what, "engine options", cure);
  };
  try {
    check(AdamHyper{options.schedule.lr, options.adam.beta1, options.adam.beta2,
                    options.adam.eps, options.adam.weight_decay});
  } catch (const std::invalid_argument& error) {
    refuse(error.what(), "see --lr, --betas, --eps, --weight-decay");
  }
  if (!(options.clip >= 0))
    refuse("clip is " + std::to_string(options.clip), "a number >= 0; 0 does not clip");
  if (options.prefetch < 0)
    refuse("prefetch is " + std::to_string(options.prefetch), "0 or more units");
  if (!(options.nominal_targets > 0))
    refuse("nominal_targets is not positive", "micro-batch times sequence length");
  if (options.accumulate == Accumulate::kUnit) {
    if (options.micro_batch < 1)
      refuse("accumulate unit without micro_batch",
             "the rows of a kernel pass, 1 or more");
    if (options.deterministic) {
      refuse("deterministic mode with accumulate unit",
             "accumulate model: units add up their micro-batches in "
             "another order than ranks share them out");
    }
  }
  if (options.micro_batches_per_rank < 1)
    refuse("micro_batches_per_rank is below 1", "1 or more");
  if (options.deterministic && !std::has_single_bit(static_cast<unsigned>(world_size))) {
    refuse("deterministic mode on " + std::to_string(world_size) + " ranks",
           "1, 2, 4, 8 ... ranks: sums over ranks are a tree of pairs, and only then is "
           "it a part of one rank's tree");
  }
}

std::unique_ptr<Device> make_device(const Options& options) {
  const bool wants_gpu =
      options.device == DeviceChoice::kCuda ||
      (options.device == DeviceChoice::kAuto && num_cuda_devices() > 0);
  if (wants_gpu) return make_cuda_device(0);
  HostDeviceOptions host;
  host.chaos_seed = options.chaos_seed;
  return make_host_device(host);
}

std::unique_ptr<Communicator> choose_communicator(std::unique_ptr<Communicator> given,
                                                  const Options& options) {
  std::unique_ptr<Communicator> comm =
      given ? std::move(given) : make_default_communicator();
  if (options.trace_comm.empty()) return comm;
  return make_traced_communicator(std::move(comm), options.trace_comm);
}

// What a merged holder needs of an engine: random numbers that do not depend on what was
// merged.
class MergedUnit : public UnitRunner {
 public:
  MergedUnit(std::string fqn, const torch::nn::Module& module)
      : fqn_(std::move(fqn)), module_(module) {}
  std::vector<at::Tensor> run(const UnitBody& body,
                              std::vector<at::Tensor> inputs) override {
    const CallSeed seed(fqn_, module_.is_training());
    return body(inputs);
  }

 private:
  const std::string fqn_;
  const torch::nn::Module& module_;
};

}  // namespace

Engine::Impl::Impl(std::shared_ptr<torch::nn::Module> module,
                   const Options& given_options, std::unique_ptr<Communicator> given)
    : root(std::move(module)),
      options(given_options),
      comm(choose_communicator(std::move(given), options)),
      control(comm->duplicate()),
      device(make_device(options)),
      comm_stream(device->make_stream("communication")),
      inline_stream(make_inline_stream("control")),
      threads(options.adam_threads) {
  check(options, comm->size());
  model = scan_model(*root);
  for (size_t d = 1; d < model.units.size(); ++d) {
    if (!model.hooks[d]->runner) continue;
    throw Error(ExitCode::kUsage, "this model already belongs to a zero::Engine",
                model.units[d].fqn,
                "make one engine per model, or let the first one go before");
  }
  plan = make_unit_plan(model.units, model.params, options, comm->size());
  memory = make_memory_plan(plan, options, comm->size());
  shards = std::make_unique<ShardStore>(plan, options.dtype, options.inference);
  fill_shards(model, plan, options, *shards, *control, *inline_stream, threads);
  weights = std::make_unique<WeightStreamer>(
      plan, memory, options, *shards, params_of_units(), *device, *comm, *comm_stream);
  gradients = std::make_unique<GradientShards>(plan, memory, options, *shards, *device,
                                               *comm, *comm_stream);
  pass = std::make_unique<BackwardPass>(static_cast<int>(plan.units.size()), *gradients,
                                        *weights);
  refresh_copies();
  attach_units();
}

Engine::Impl::~Impl() {
  for (UnitHook* hook : model.hooks) {
    if (hook) hook->runner.reset();
  }
  for (const auto& runtime : runtimes) runtime->detach();
  try {
    comm_stream->synchronize();  // nothing may write into memory that goes away now
  } catch (const std::exception&) {
    // whoever waited for this work has been told already
  }
}

void Engine::Impl::attach_units() {
  std::vector<bool> is_leaf(plan.units.size(), true);
  for (size_t d = 1; d < model.units.size(); ++d) {
    const int unit = plan.unit_of[d], outer = plan.unit_of[model.units[d].parent];
    if (unit != outer) is_leaf[outer] = false;
  }
  for (size_t d = 1; d < model.units.size(); ++d) {
    const int unit = plan.unit_of[d];
    const std::string& fqn = model.units[d].fqn;
    if (plan.units[unit].description != static_cast<int>(d)) {
      model.hooks[d]->runner = std::make_shared<MergedUnit>(fqn, *model.modules[d]);
      continue;
    }
    runtimes.push_back(std::make_shared<UnitRuntime>(
        unit, fqn, *model.modules[d], is_leaf[unit], options, *weights, *pass));
    model.hooks[d]->runner = runtimes.back();
  }
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    model.tensors[i].set_requires_grad(!plan.rules[i].frozen);
  }
}

std::vector<std::vector<at::Tensor>> Engine::Impl::params_of_units() const {
  std::vector<std::vector<at::Tensor>> params;
  for (const PlannedUnit& unit : plan.units) {
    std::vector<at::Tensor> of_unit;
    for (const int param : unit.trainable_params) of_unit.push_back(model.tensors[param]);
    for (const int param : unit.frozen_params) of_unit.push_back(model.tensors[param]);
    params.push_back(std::move(of_unit));
  }
  return params;
}

void Engine::Impl::refresh_copies() {
  if (options.dtype == DType::kFloat32) return;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    UnitShard& shard = (*shards)[static_cast<int>(u)];
    convert_to_bf16(shard.master, shard.copy, plan.units[u].trainable.shard_numel);
    convert_to_bf16(shard.frozen, shard.frozen_copy, plan.units[u].frozen.shard_numel);
  }
}

void Engine::Impl::begin_forward() {
  if (num_forwards++ > 0)
    throw Error(ExitCode::kUsage, "forward() inside forward()", "zero::Engine", "");
  const bool trains = torch::GradMode::is_enabled();
  const auto micro_batch =
      static_cast<uint64_t>(losses.size()) * comm->size() + comm->rank();
  const uint64_t step_seed =
      hash_key(hash_key(options.seed, "forward"), static_cast<uint64_t>(num_steps));
  forward_seed.emplace(hash_key(step_seed, micro_batch), root->is_training());
  if (!root_is_held) {
    weights->unshard(0, WeightStreamer::Direction::kForward);
    scope_holds_root = !trains;
    root_is_held = trains;
  }
}

void Engine::Impl::end_forward() {
  --num_forwards;
  forward_seed.reset();
  if (scope_holds_root) weights->reshard(0);
  scope_holds_root = false;
}

void Engine::Impl::release_root() {
  if (root_is_held) weights->reshard(0);
  root_is_held = false;
}

// Wait for the reductions, and sum losses and targets over all micro-batches in their
// global order.
void Engine::Impl::finish_gradients() {
  if (gradients_are_finished) return;
  release_root();
  gradients->finish();
  const size_t size = comm->size(), rank = comm->rank(), num_passes = losses.size();
  std::vector<double> all(2 * size * num_passes,
                          0.0);  // (passes, ranks, {loss, targets})
  for (size_t p = 0; p < num_passes; ++p) {
    all[2 * (p * size + rank)] = losses[p];
    all[2 * (p * size + rank) + 1] = targets[p];
  }
  control->all_reduce(std::span<double>(all), ReduceOp::kSum, "losses", *inline_stream);
  inline_stream->synchronize();
  loss_total = target_total = 0;
  for (size_t i = 0; i < all.size(); i += 2) {
    loss_total += all[i];
    target_total += all[i + 1];
  }
  gradients_are_finished = true;
}

// Sums of loss_sum / nominal_targets become a mean over all targets.
double Engine::Impl::mean_factor() const {
  return target_total > 0 ? options.nominal_targets / target_total : 0;
}

void Engine::Impl::update_all(double lr, double grad_factor) {
  delay_point("adam");
  for (size_t u = 0; u < plan.units.size(); ++u) {
    update_unit(plan, static_cast<int>(u), comm->rank(), (*shards)[static_cast<int>(u)],
                options.adam, lr, num_steps + 1, static_cast<float>(grad_factor),
                threads);
  }
  ++num_steps;
  weights->invalidate();
}

Engine::Engine(std::shared_ptr<torch::nn::Module> model, const Options& options,
               std::unique_ptr<Communicator> communicator)
    : impl_(std::make_unique<Impl>(std::move(model), options, std::move(communicator))) {}

Engine::~Engine() = default;

Engine::ForwardScope::ForwardScope(Engine& engine) : engine_(engine) {
  engine_.impl_->begin_forward();
}
Engine::ForwardScope::~ForwardScope() { engine_.impl_->end_forward(); }

void Engine::backward(const at::Tensor& loss_sum, int64_t num_targets) {
  const auto refuse = [](const std::string& what, const std::string& cure) {
    throw Error(ExitCode::kUsage, what, "Engine::backward", cure);
  };
  if (loss_sum.numel() != 1)
    refuse("the loss has " + std::to_string(loss_sum.numel()) + " values",
           "pass its sum");
  if (!loss_sum.requires_grad())
    refuse("the loss needs no gradient", "run forward outside torch::NoGradGuard");
  if (num_targets < 0)
    refuse("num_targets is " + std::to_string(num_targets),
           "count this micro-batch's targets");
  if (impl_->options.inference)
    refuse("the engine was made for inference", "Options::inference = false");
  if (impl_->gradients_are_finished)
    refuse("backward() after full_gradient()", "call step() first");
  delay_point("backward");
  impl_->losses.push_back(loss_sum.item<double>());
  impl_->targets.push_back(static_cast<double>(num_targets));
  impl_->pass->begin();
  loss_sum.div(impl_->options.nominal_targets).backward();
  impl_->pass->end();
  impl_->release_root();
}

StepReport Engine::step() {
  Impl& impl = *impl_;
  if (impl.losses.empty()) {
    throw Error(ExitCode::kUsage, "step() without backward()", "Engine::step",
                "call backward() once per micro-batch");
  }
  impl.finish_gradients();
  StepReport report;
  report.num_targets = static_cast<int64_t>(impl.target_total);
  report.loss = impl.target_total > 0 ? impl.loss_total / impl.target_total : 0;
  report.lr = learning_rate(impl.options.schedule, impl.num_steps);
  const double factor = impl.mean_factor();
  report.grad_norm = gradient_norm(impl.plan, *impl.shards, impl.options.norm, factor,
                                   *impl.control, *impl.inline_stream, impl.threads);
  if (std::isfinite(report.grad_norm) && std::isfinite(report.loss)) {
    report.clip_coef = clip_coefficient(report.grad_norm, impl.options.clip);
    impl.update_all(report.lr, factor * report.clip_coef);
  } else {
    report.skipped = true;
    report.clip_coef = 0;
    std::vector<std::string> fqns;
    for (const ParamDescription& param : impl.model.params) fqns.push_back(param.fqn);
    report.first_bad = first_non_finite(impl.plan, fqns, *impl.shards, *impl.control,
                                        *impl.inline_stream);
    if (report.first_bad.empty()) report.first_bad = "loss";
  }
  report.step = impl.num_steps;
  impl.losses.clear();
  impl.targets.clear();
  impl.gradients_are_finished = false;
  impl.pass->forget();
  return report;
}

int Engine::rank() const { return impl_->comm->rank(); }
int Engine::size() const { return impl_->comm->size(); }
Communicator& Engine::control() { return *impl_->control; }
int64_t Engine::num_steps() const { return impl_->num_steps; }
void Engine::set_num_steps(int64_t steps) { impl_->num_steps = steps; }
const Options& Engine::options() const { return impl_->options; }
std::vector<MemoryEntry> Engine::memory() const { return impl_->memory.entries; }
int64_t Engine::num_gathers() const { return impl_->weights->num_gathers(); }
int64_t Engine::num_reductions() const { return impl_->gradients->num_reductions(); }

int64_t Engine::allocated_bytes() const {
  return impl_->shards->bytes() + impl_->gradients->accumulation_bytes() +
         impl_->device->allocated_bytes();
}

int64_t Engine::num_parameters() const {
  int64_t numel = 0;
  for (const at::Tensor& tensor : impl_->model.tensors) numel += tensor.numel();
  return numel;
}

int Engine::num_units() const {
  int count = 0;
  for (const PlannedUnit& unit : impl_->plan.units)
    count += unit.trainable.numel + unit.frozen.numel > 0;
  return count;
}

}  // namespace zero
