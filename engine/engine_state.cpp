// Parameters, gradients and buffers as others see them: whole, or this rank's share.
#include <optional>

#include "base/hash.h"
#include "engine/comm/agreement.h"
#include "engine/device/torch/compute_type.h"
#include "engine/engine_impl.h"
#include "engine/init/fill_shards.h"
#include "engine/options/check_options.h"
#include "engine/plan/traffic_plan.h"
#include "engine/save/saved_arrays.h"
#include "engine/unit/ignored_params.h"
#include "engine/weights/shard_views.h"
#include "zero/errors.h"

namespace zero {
namespace {

void require_shape(const std::string& what, const std::string& fqn,
                   const at::Tensor& value, c10::IntArrayRef shape) {
  if (value.defined() && value.sizes() == shape) return;
  reject("a value of another shape than " + what, fqn,
         "found " + (value.defined() ? c10::str(value.sizes()) : "nothing") +
             ", expected " + c10::str(shape));
}

// What an engine decides before it allocates anything.
struct Plans {
  UnitMemory where;
  UnitPlan units;
  MemoryPlan memory;
};

Plans make_plans(torch::nn::Module& model, Options options, int world_size,
                 int ranks_of_host) {
  if (world_size < 1)
    reject("a plan for " + std::to_string(world_size) + " ranks", "zero::plan",
           "1 or more");
  if (options.shard_ranks == kRanksOfHost) {
    options.shard_ranks = ranks_of_host > 0 ? ranks_of_host : world_size;
    if (world_size % options.shard_ranks != 0)
      reject("hosts have different numbers of ranks: " + std::to_string(ranks_of_host) +
                 " on one, " + std::to_string(world_size) + " in all",
             "--shard-over host (Options::shard_ranks)",
             "start as many ranks on each host; or shard over all");
  }
  const UnitMemory where = expected_unit_memory(options, world_size, ranks_of_host);
  check(options, world_size, where);
  const ScannedModel scanned = scan_model(model, options.ignored);
  UnitPlan units = make_unit_plan(scanned.units, scanned.params, options,
                                  Mesh(world_size, options.shard_ranks));
  MemoryPlan memory = make_memory_plan(units, options, where);
  add_ignored(memory.entries, scanned, options, !is_of_host(where));
  return {where, std::move(units), std::move(memory)};
}

}  // namespace

std::vector<MemoryEntry> plan(torch::nn::Module& model, const Options& options,
                              int world_size, int ranks_of_host) {
  return make_plans(model, options, world_size, ranks_of_host).memory.entries;
}

Traffic plan_traffic(torch::nn::Module& model, const Options& options, int world_size,
                     int ranks_of_host) {
  const Plans plans = make_plans(model, options, world_size, ranks_of_host);
  return make_traffic_plan(plans.units, plans.memory, options, plans.where,
                           ranks_of_host);
}

std::vector<GroupShare> plan_groups(torch::nn::Module& model, const Options& options) {
  const ScannedModel scanned = scan_model(model, options.ignored);
  const UnitPlan units = make_unit_plan(scanned.units, scanned.params, options, 1);
  std::vector<GroupShare> shares(options.groups.size() + 1);
  for (size_t i = 0; i < scanned.params.size(); ++i) {
    GroupShare& share = units.groups[i] < 0 ? shares.back() : shares[units.groups[i]];
    ++share.num_parameters;
    share.numel += scanned.tensors[i].numel();
  }
  return shares;
}

std::vector<ShardView> Engine::shards() {
  EngineResources& own = impl_->own;
  impl_->await_shards();
  return shard_views(own.model.params, own.plan, *own.shards, own.options, rank());
}

std::vector<BufferView> Engine::buffers() {
  std::vector<BufferView> views;
  for (size_t i = 0; i < impl_->own.model.buffers.size(); ++i) {
    auto view = buffer_view(impl_->own.model.buffer_fqns[i], impl_->own.model.buffers[i]);
    if (!view) continue;
    if (const IgnoredParam* param = impl_->own.model.ignored_of(i)) {
      view->is_parameter = true;
      view->aliases.assign(param->names.begin() + 1, param->names.end());
    }
    views.push_back(std::move(*view));
  }
  return views;
}

void Engine::set_buffer(const std::string& fqn, const at::Tensor& given) {
  at::Tensor& buffer = impl_->values.buffer(fqn);
  const bool are_pairs = buffer.is_complex() && !given.is_complex() &&
                         given.dim() == buffer.dim() + 1 && given.size(-1) == 2;
  const at::Tensor value = are_pairs ? at::view_as_complex(given.contiguous()) : given;
  require_shape("the buffer", fqn, value, buffer.sizes());
  const torch::NoGradGuard no_grad;
  impl_->values.require_first_value(fqn, value);
  write_buffer(buffer, value);
}

void Engine::masters_changed() {
  Impl& impl = *impl_;
  impl.units.phase.require_idle("masters_changed()");
  impl.await_shards();
  impl.own.comm_stream->synchronize();
  impl.values.refresh_copies();
  impl.forward.weights_changed(/*frozen_too=*/true);
  if (impl.values.end_wait()) impl.values.run_post_init(*this);
}

at::Tensor Engine::full_parameter(const std::string& fqn) {
  EngineValues& values = impl_->values;
  const size_t param = values.find(fqn);
  values.require_there("full_parameter()");
  impl_->own.updates->finish();
  return values.gather_full(param, &PartShard::masters);
}

void Engine::set_full_parameter(const std::string& fqn, const at::Tensor& value) {
  EngineValues& values = impl_->values;
  size_t param = 0;
  at::Tensor full;
  Agreement(control(), "set_full_parameter " + fqn).run([&] {
    param = values.find(fqn);
    const auto [shard, layout, index] = values.home_of(param);
    require_shape("the parameter", fqn, value, layout.params[index].shape);
    values.require_there("set_full_parameter()");
    impl_->units.phase.require_idle("set_full_parameter()");
    if (impl_->forward.has_pending())
      reject("set_full_parameter between a forward and its backward", fqn,
             "call backward first, or let go of what forward returned");
    full = value.detach().to(at::kCPU, at::kFloat).contiguous();
    if (!full.isfinite().all().item<bool>())
      reject("values that are not finite in fp32", fqn,
             "look at what the value was made of");
    values.require_first_value(impl_->own.model.params[param].fqn, full);
  });
  impl_->await_shards();
  impl_->own.comm_stream->synchronize();
  // Of the same value; and no rank reads any more what is shared.
  if (control().size() > 1)
    control().barrier("value " + to_hex(hash_of(full.const_data_ptr(), full.nbytes())) +
                      " of " + fqn);
  const auto [shard, layout, index] = values.home_of(param);
  if (const auto piece = piece_of(layout, rank(), index)) {
    const std::span<const float> own(full.data_ptr<float>() + piece->param_begin,
                                     piece->numel);
    shard.masters(piece->shard_begin, piece->numel).write(0, own);
  }
  masters_changed();
}

at::Tensor Engine::full_gradient(const std::string& fqn) {
  EngineValues& values = impl_->values;
  EngineStep& step = impl_->step;
  const size_t param = values.find(fqn);
  impl_->units.phase.require_idle("full_gradient()");
  if (options().inference)
    reject("an engine for inference has no gradients", fqn, "Options::inference = false");
  if (impl_->own.plan.rules[param].frozen)
    reject("a frozen parameter has no gradient", fqn, "");
  step.require_whole();
  if (step.num_passes() == 0)
    reject("full_gradient() without backward()", fqn, "call backward() first");
  step.finish_gradients();
  return values.gather_full(param, &PartShard::gradients).mul(step.mean_factor());
}

ShardView Engine::local_shard(const std::string& fqn) {
  return shards()[impl_->values.find(fqn)];
}

bool Engine::awaits_values() const { return impl_->values.are_awaited(); }
void Engine::initialize(const std::vector<std::string>& patterns) {
  impl_->values.initialize(patterns);
}
const std::vector<InitEntry>& Engine::init_report() const {
  return impl_->values.init_report();
}
void Engine::average_buffers() { impl_->values.average_buffers(); }
at::Tensor Engine::averaged_buffer(const std::string& fqn) {
  return impl_->values.averaged_buffer(fqn);
}

}  // namespace zero
