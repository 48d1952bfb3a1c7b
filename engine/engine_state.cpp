// Parameters, gradients and buffers as others see them: whole, or this rank's share.
#include <algorithm>
#include <map>

#include "engine/engine_impl.h"
#include "engine/errors.h"

namespace zero {

Engine::Impl::Place Engine::Impl::find(const std::string& fqn) const {
  for (size_t i = 0; i < model.params.size(); ++i) {
    const auto& names = model.params[i].names;
    if (std::find(names.begin(), names.end(), fqn) == names.end()) continue;
    for (size_t u = 0; u < plan.units.size(); ++u) {
      for (const bool is_frozen : {false, true}) {
        const auto& indices =
            is_frozen ? plan.units[u].frozen_params : plan.units[u].trainable_params;
        const auto found = std::find(indices.begin(), indices.end(), static_cast<int>(i));
        if (found == indices.end()) continue;
        return {static_cast<int>(u), static_cast<int>(found - indices.begin()),
                is_frozen};
      }
    }
  }
  throw Error(ExitCode::kUsage, "the model has no such parameter", fqn,
              model.params.empty() ? "" : "names look like " + model.params.front().fqn);
}

const FlatLayout& Engine::Impl::layout_of(const Place& place) const {
  const PlannedUnit& unit = plan.units[place.unit];
  return place.is_frozen ? unit.frozen : unit.trainable;
}

at::Tensor Engine::Impl::gather_full(const Place& place, const float* shard) {
  const FlatLayout& layout = layout_of(place);
  const at::Tensor flat = at::empty({layout.numel}, at::kFloat);
  control->all_gather(shard, flat.data_ptr<float>(), layout.shard_numel * 4,
                      layout.params[place.index].fqn, *inline_stream);
  inline_stream->synchronize();
  const ParamShape& param = layout.params[place.index];
  return flat.narrow(0, layout.offsets[place.index], param.numel())
      .clone()
      .view(param.shape);
}

ShardView Engine::local_shard(const std::string& fqn) {
  impl_->find(fqn);  // throws for an unknown name
  for (const ShardView& view : shards()) {
    const auto alias = std::find(view.aliases.begin(), view.aliases.end(), fqn);
    if (view.fqn == fqn || alias != view.aliases.end()) return view;
  }
  return {};
}

std::vector<MemoryEntry> plan(torch::nn::Module& model, const Options& options,
                              int world_size) {
  const ScannedModel scanned = scan_model(model);
  const UnitPlan units =
      make_unit_plan(scanned.units, scanned.params, options, world_size);
  return make_memory_plan(units, options, world_size).entries;
}

std::vector<ShardView> Engine::shards() {
  std::vector<ShardView> views(impl_->model.params.size());
  for (size_t i = 0; i < views.size(); ++i) {
    const ParamDescription& param = impl_->model.params[i];
    views[i].fqn = param.fqn;
    views[i].shape = param.shape;
    views[i].aliases.assign(param.names.begin() + 1, param.names.end());
    views[i].frozen = impl_->plan.rules[i].frozen;
  }
  for (size_t u = 0; u < impl_->plan.units.size(); ++u) {
    const PlannedUnit& unit = impl_->plan.units[u];
    UnitShard& shard = (*impl_->shards)[static_cast<int>(u)];
    const auto span = [](float* memory, const Piece& piece) {
      return memory ? std::span<float>(memory + piece.shard_begin, piece.numel)
                    : std::span<float>();
    };
    for (const Piece& piece : pieces_of(unit.trainable, rank())) {
      ShardView& view = views[unit.trainable_params[piece.param]];
      view.begin = piece.param_begin;
      view.master = span(shard.master, piece);
      view.exp_avg = span(shard.exp_avg, piece);
      view.exp_avg_sq = span(shard.exp_avg_sq, piece);
    }
    for (const Piece& piece : pieces_of(unit.frozen, rank())) {
      ShardView& view = views[unit.frozen_params[piece.param]];
      view.begin = piece.param_begin;
      view.master = span(shard.frozen, piece);
    }
  }
  return views;
}

std::vector<BufferView> Engine::buffers() {
  static const std::map<at::ScalarType, std::string> names{
      {at::kDouble, "fp64"}, {at::kFloat, "fp32"}, {at::kBFloat16, "bf16"},
      {at::kHalf, "fp16"},   {at::kLong, "int64"}, {at::kInt, "int32"},
      {at::kByte, "uint8"},  {at::kBool, "bool"}};
  std::vector<BufferView> views;
  for (size_t i = 0; i < impl_->model.buffers.size(); ++i) {
    const at::Tensor& buffer = impl_->model.buffers[i];
    const auto name = names.find(buffer.scalar_type());
    if (name == names.end() || !buffer.is_contiguous()) continue;
    views.push_back({impl_->model.buffer_fqns[i],
                     buffer.sizes().vec(),
                     name->second,
                     {static_cast<std::byte*>(buffer.data_ptr()),
                      static_cast<size_t>(buffer.nbytes())}});
  }
  return views;
}

void Engine::masters_changed() {
  impl_->release_root();
  impl_->comm_stream->synchronize();
  impl_->refresh_copies();
  impl_->weights->invalidate();
}

at::Tensor Engine::full_parameter(const std::string& fqn) {
  const Impl::Place place = impl_->find(fqn);
  const UnitShard& shard = (*impl_->shards)[place.unit];
  return impl_->gather_full(place, place.is_frozen ? shard.frozen : shard.master);
}

void Engine::set_full_parameter(const std::string& fqn, const at::Tensor& value) {
  const Impl::Place place = impl_->find(fqn);
  const ParamShape& param = impl_->layout_of(place).params[place.index];
  if (value.sizes() != c10::IntArrayRef(param.shape)) {
    throw Error(ExitCode::kUsage, "a value of another shape than the parameter", fqn,
                "found " + c10::str(value.sizes()) + ", expected " +
                    c10::str(c10::IntArrayRef(param.shape)));
  }
  const at::Tensor full = value.detach().to(at::kCPU, at::kFloat).contiguous();
  UnitShard& shard = (*impl_->shards)[place.unit];
  for (const Piece& piece : pieces_of(impl_->layout_of(place), rank())) {
    if (piece.param != place.index) continue;
    float* memory = (place.is_frozen ? shard.frozen : shard.master) + piece.shard_begin;
    std::copy_n(full.data_ptr<float>() + piece.param_begin, piece.numel, memory);
  }
  masters_changed();
}

at::Tensor Engine::full_gradient(const std::string& fqn) {
  impl_->finish_gradients();
  const Impl::Place place = impl_->find(fqn);
  if (place.is_frozen)
    throw Error(ExitCode::kUsage, "a frozen parameter has no gradient", fqn, "");
  return impl_->gather_full(place, (*impl_->shards)[place.unit].grad)
      .mul(impl_->mean_factor());
}

}  // namespace zero
