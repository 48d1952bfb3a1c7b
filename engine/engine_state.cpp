// Parameters, gradients and buffers as others see them: whole, or this rank's share.
#include <algorithm>
#include <optional>

#include "checkpoint/names.h"
#include "engine/check_options.h"
#include "engine/compute_type.h"
#include "engine/device/host_device.h"
#include "engine/engine_impl.h"
#include "engine/errors.h"
#include "engine/init/fill_shards.h"
#include "engine/plan/traffic_plan.h"

namespace zero {
namespace {

void require_shape(const std::string& what, const std::string& fqn,
                   const at::Tensor& value, c10::IntArrayRef shape) {
  if (value.defined() && value.sizes() == shape) return;
  throw Error(ExitCode::kUsage, "a value of another shape than " + what, fqn,
              "found " + (value.defined() ? c10::str(value.sizes()) : "nothing") +
                  ", expected " + c10::str(shape));
}

}  // namespace

size_t Engine::Impl::find(const std::string& fqn) const {
  for (size_t i = 0; i < model.params.size(); ++i) {
    const auto& names = model.params[i].names;
    if (std::find(names.begin(), names.end(), fqn) != names.end()) return i;
  }
  throw Error(ExitCode::kUsage, "the model has no such parameter", fqn,
              model.params.empty() ? "" : "names look like " + model.params.front().fqn);
}

PartShard& Engine::Impl::shard_of(size_t param) const {
  return (*shards)[plan.places[param].part];
}

at::Tensor Engine::Impl::gather_full(size_t param, const StoredValues& shard) {
  const std::vector<float> read =
      shard.is_plain() ? std::vector<float>() : shard.read_all();
  const float* const values = shard.is_plain() ? shard.span().data() : read.data();
  const ParamPlace& place = plan.places[param];
  const FlatLayout& layout = plan.parts[place.part].layout;
  const at::Tensor flat = at::empty({layout.numel}, at::kFloat);
  const auto stream = make_inline_stream("whole parameters");
  host_comm->all_gather(values, flat.data_ptr<float>(), layout.shard_numel * 4,
                        layout.params[place.index].fqn, *stream);
  stream->synchronize();
  const ParamShape& shape = layout.params[place.index];
  return flat.narrow(0, layout.offsets[place.index], shape.numel())
      .clone()
      .view(shape.shape);
}

ShardView Engine::local_shard(const std::string& fqn) {
  return shards()[impl_->find(fqn)];
}

namespace {

// What an engine decides before it allocates anything.
struct Plans {
  UnitMemory where;
  UnitPlan units;
  MemoryPlan memory;
};

Plans make_plans(torch::nn::Module& model, const Options& options, int world_size) {
  if (world_size < 1) {
    throw Error(ExitCode::kUsage, "a plan for " + std::to_string(world_size) + " ranks",
                "zero::plan", "1 or more");
  }
  const UnitMemory where = expected_unit_memory(options, world_size);
  check(options, world_size, where);
  const ScannedModel scanned = scan_model(model);
  UnitPlan units = make_unit_plan(scanned.units, scanned.params, options, world_size);
  MemoryPlan memory = make_memory_plan(units, options, world_size, where);
  return {where, std::move(units), std::move(memory)};
}

}  // namespace

std::vector<MemoryEntry> plan(torch::nn::Module& model, const Options& options,
                              int world_size) {
  return make_plans(model, options, world_size).memory.entries;
}

Traffic plan_traffic(torch::nn::Module& model, const Options& options, int world_size) {
  const Plans plans = make_plans(model, options, world_size);
  return make_traffic_plan(plans.units, plans.memory, options, world_size, plans.where);
}

std::vector<ShardView> Engine::shards() {
  impl_->updates->finish();
  std::vector<ShardView> views(impl_->model.params.size());
  for (size_t i = 0; i < views.size(); ++i) {
    const ParamDescription& param = impl_->model.params[i];
    views[i].fqn = param.fqn;
    views[i].shape = param.shape;
    views[i].aliases.assign(param.names.begin() + 1, param.names.end());
    views[i].frozen = impl_->plan.rules[i].frozen;
    if (views[i].frozen || impl_->options.inference) continue;
    for (const std::string_view name : states_of(impl_->options.optimizer.kind))
      views[i].state.push_back({std::string(name), {}});
  }
  for (size_t p = 0; p < impl_->plan.parts.size(); ++p) {
    const PlannedPart& part = impl_->plan.parts[p];
    const PartShard& shard = (*impl_->shards)[p];
    for (const Piece& piece : pieces_of(part.layout, rank())) {
      ShardView& view = views[part.params[piece.param]];
      view.begin = piece.param_begin;
      view.master = shard.masters(piece.shard_begin, piece.numel);
      for (size_t s = 0; s < view.state.size(); ++s) {
        view.state[s].values =
            shard.states(static_cast<int>(s), piece.shard_begin, piece.numel);
      }
    }
  }
  return views;
}

std::vector<BufferView> Engine::buffers() {
  std::vector<BufferView> views;
  for (size_t i = 0; i < impl_->model.buffers.size(); ++i) {
    const at::Tensor& buffer = impl_->model.buffers[i];
    const std::optional<DType> dtype = dtype_of(buffer.scalar_type());
    if (!dtype || !buffer.is_contiguous()) continue;
    views.push_back({impl_->model.buffer_fqns[i], buffer.sizes().vec(), *dtype});
  }
  return views;
}

at::Tensor& Engine::Impl::buffer(const std::string& fqn) {
  const auto found = std::ranges::find(model.buffer_fqns, fqn);
  if (found != model.buffer_fqns.end())
    return model.buffers[found - model.buffer_fqns.begin()];
  throw Error(ExitCode::kUsage, "the model has no such buffer", fqn, "");
}

void Engine::set_buffer(const std::string& fqn, const at::Tensor& value) {
  at::Tensor& buffer = impl_->buffer(fqn);
  require_shape("the buffer", fqn, value, buffer.sizes());
  const torch::NoGradGuard no_grad;
  impl_->require_first_value(fqn, value, /*may_be_infinite=*/true);
  buffer.copy_(value);
}

void Engine::masters_changed() {
  impl_->require_idle("masters_changed()");
  impl_->updates->finish();
  impl_->release_root();
  impl_->comm_stream->synchronize();
  impl_->refresh_copies();
  impl_->weights_changed();
  impl_->awaits_values = false;
  impl_->given_tensors.clear();
  if (std::exchange(impl_->starts_anew, false)) impl_->run_post_init(*this);
}

at::Tensor Engine::full_parameter(const std::string& fqn) {
  const size_t param = impl_->find(fqn);
  impl_->require_values("full_parameter()");
  impl_->updates->finish();
  const int64_t numel =
      impl_->plan.parts[impl_->plan.places[param].part].layout.shard_numel;
  return impl_->gather_full(param, impl_->shard_of(param).masters(0, numel));
}

void Engine::set_full_parameter(const std::string& fqn, const at::Tensor& value) {
  const size_t param = impl_->find(fqn);
  const auto [part, index] = impl_->plan.places[param];
  const FlatLayout& layout = impl_->plan.parts[part].layout;
  const c10::IntArrayRef shape = layout.params[index].shape;
  require_shape("the parameter", fqn, value, shape);
  impl_->require_values("set_full_parameter()");
  impl_->require_idle("set_full_parameter()");
  if (impl_->pending.any(impl_->phase.weights_version)) {
    throw Error(ExitCode::kUsage, "set_full_parameter between a forward and its backward",
                fqn, "call backward first, or let go of what forward returned");
  }
  const at::Tensor full = value.detach().to(at::kCPU, at::kFloat).contiguous();
  impl_->require_first_value(impl_->model.params[param].fqn, full,
                             /*may_be_infinite=*/false);
  impl_->updates->finish();
  if (const auto piece = piece_of(layout, rank(), index)) {
    const std::span<const float> values(full.data_ptr<float>() + piece->param_begin,
                                        piece->numel);
    impl_->shard_of(param).masters(piece->shard_begin, piece->numel).write(0, values);
  }
  masters_changed();
}

at::Tensor Engine::full_gradient(const std::string& fqn) {
  const size_t param = impl_->find(fqn);
  impl_->require_idle("full_gradient()");
  const auto refuse = [&](const std::string& what, const std::string& cure) {
    throw Error(ExitCode::kUsage, what, fqn, cure);
  };
  if (impl_->options.inference)
    refuse("an engine for inference has no gradients", "Options::inference = false");
  if (impl_->plan.rules[param].frozen) refuse("a frozen parameter has no gradient", "");
  impl_->require_whole();
  if (impl_->losses.empty())
    refuse("full_gradient() without backward()", "call backward() first");
  impl_->finish_gradients();
  const int64_t numel =
      impl_->plan.parts[impl_->plan.places[param].part].layout.shard_numel;
  const StoredValues gradients = impl_->shard_of(param).gradients(0, numel);
  return impl_->gather_full(param, gradients).mul(impl_->mean_factor());
}

void Engine::average_buffers() {
  if (size() == 1) return;
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < impl_->model.buffers.size(); ++i) {
    at::Tensor buffer = impl_->model.buffers[i];
    const at::Tensor average = averaged_buffer(impl_->model.buffer_fqns[i]);
    if (!buffer.cpu().equal(average)) buffer.copy_(average);
  }
}

at::Tensor Engine::averaged_buffer(const std::string& fqn) {
  const at::Tensor buffer = impl_->buffer(fqn).to(at::kCPU);
  const torch::NoGradGuard no_grad;
  if (size() == 1 || buffer.numel() == 0 || buffer.is_complex()) return buffer.clone();
  const auto reduced = [&](ReduceOp op) {
    const at::ScalarType type = buffer.is_floating_point() ? at::kDouble : at::kLong;
    at::Tensor values = buffer.to(type).contiguous().clone();
    const auto reduce = [&]<class T>(T* data) {
      impl_->control->all_reduce(std::span<T>(data, values.numel()), op, fqn);
    };
    buffer.is_floating_point() ? reduce(values.data_ptr<double>())
                               : reduce(values.data_ptr<int64_t>());
    return values;
  };
  const at::Tensor largest = reduced(ReduceOp::kMax);
  if (torch::equal(largest, reduced(ReduceOp::kMin))) return buffer.clone();
  const at::Tensor together =
      buffer.is_floating_point() ? reduced(ReduceOp::kSum) / size() : largest;
  return together.to(buffer.scalar_type());
}

}  // namespace zero
