#include "engine/step/gradient_shards.h"

#include <torch/torch.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "engine/device/host_device.h"
#include "engine/errors.h"

namespace zero {
namespace {

at::ScalarType scalar_type(WireType wire) {
  return wire == WireType::kFloat ? at::kFloat : at::kBFloat16;
}
int64_t element_bytes(WireType wire) { return wire == WireType::kFloat ? 4 : 2; }

int64_t largest_shard(const UnitPlan& plan) {
  int64_t numel = 0;
  for (const PlannedUnit& unit : plan.units)
    numel = std::max(numel, unit.trainable.shard_numel);
  return numel;
}

}  // namespace

GradientShards::GradientShards(const UnitPlan& plan, const MemoryPlan& memory,
                               const Options& options, ShardStore& shards, Device& device,
                               Communicator& comm, Stream& stream)
    : plan_(plan),
      wire_(options.reduce_dtype == DType::kFloat32 ? WireType::kFloat : WireType::kBf16),
      in_place_(memory.gradient_in_place),
      shards_(shards),
      device_(device),
      comm_(comm),
      stream_(stream),
      slot_bytes_(memory.gradient_slot_bytes),
      slots_(memory.num_gradient_slots),
      units_(plan.units.size()),
      collected_(device.make_event()) {
  for (Slot& slot : slots_) {
    slot.memory = device_.allocate("gradient ring", slot_bytes_);
    slot.idle = device_.make_event();
  }
  if (memory.accumulation_bytes == 0) return;
  accumulation_ = std::make_unique<HostArena>("accumulation", memory.accumulation_bytes);
  scratch_ = accumulation_->allocate_array<float>("scratch", largest_shard(plan));
  for (size_t u = 0; u < units_.size(); ++u) {
    for (int level = 0; level < memory.num_counter_levels; ++level) {
      units_[u].levels.push_back(accumulation_->allocate_array<float>(
          plan.units[u].fqn + " level " + std::to_string(level),
          plan.units[u].trainable.shard_numel));
    }
  }
}

GradientShards::~GradientShards() {
  for (Slot& slot : slots_) device_.free(slot.memory);
}

void GradientShards::collect(int unit, const std::vector<at::Tensor>& params) {
  const FlatLayout& layout = plan_.units[unit].trainable;
  if (layout.numel == 0) return;
  torch::NoGradGuard no_grad;
  UnitState& state = units_[unit];
  std::byte* full = full_gradient(unit);
  const bool adds = state.is_collected || (in_place_ && state.num_passes > 0);
  if (!adds && !in_place_) clear_padding(unit);
  for (size_t i = 0; i < params.size(); ++i) {
    at::Tensor into = torch::from_blob(full + layout.offsets[i] * element_bytes(wire_),
                                       layout.params[i].shape, scalar_type(wire_));
    at::Tensor& grad = params[i].mutable_grad();
    if (grad.defined()) {
      adds ? into.add_(grad) : into.copy_(grad);
    } else if (!adds) {
      into.zero_();
    }
    grad.reset();
  }
  state.is_collected = true;
}

void GradientShards::reduce(int unit) {
  UnitState& state = units_[unit];
  if (plan_.units[unit].trainable.numel == 0) return;
  if (!state.is_collected) {
    if (!in_place_) {
      std::memset(full_gradient(unit), 0, slot_bytes_);
    } else if (state.num_passes == 0) {
      std::fill_n(shards_[unit].grad, plan_.units[unit].trainable.shard_numel, 0.0f);
    }
  }
  ++num_reductions_;
  if (!in_place_) push_pass(unit, slot_of(unit));
  ++state.num_passes;
  state.is_collected = false;
}

void GradientShards::finish() {
  stream_.synchronize();
  for (size_t u = 0; u < units_.size(); ++u) {
    if (!units_[u].levels.empty()) fold_levels(static_cast<int>(u));
    if (units_[u].num_passes == 0) {
      std::fill_n(shards_[static_cast<int>(u)].grad, plan_.units[u].trainable.shard_numel,
                  0.0f);
    }
    units_[u].num_passes = 0;
  }
}

// Where this pass's full gradient of the unit is gathered up.
std::byte* GradientShards::full_gradient(int unit) {
  if (in_place_) return reinterpret_cast<std::byte*>(shards_[unit].grad);
  return static_cast<std::byte*>(slot_of(unit).memory);
}

GradientShards::Slot& GradientShards::slot_of(int unit) {
  const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                 [&](const Slot& s) { return s.unit == unit; });
  return slot == slots_.end() ? take_slot(unit) : *slot;
}

// The free slot that was freed first. A unit whose backward comes in an unplanned order
// holds its slot longer; then the ring grows.
GradientShards::Slot& GradientShards::take_slot(int unit) {
  for (size_t tries = 0; tries < slots_.size(); ++tries) {
    Slot& slot = slots_[next_slot_];
    next_slot_ = (next_slot_ + 1) % slots_.size();
    if (slot.unit >= 0) continue;
    slot.unit = unit;
    device_.compute_stream().wait(*slot.idle);
    return slot;
  }
  slots_.push_back(
      {device_.allocate("gradient ring", slot_bytes_), unit, device_.make_event()});
  return slots_.back();
}

void GradientShards::clear_padding(int unit) {
  const FlatLayout& layout = plan_.units[unit].trainable;
  std::byte* full = full_gradient(unit);
  for (size_t i = 0; i < layout.params.size(); ++i) {
    const int64_t begin = layout.offsets[i] + layout.params[i].numel();
    const int64_t end =
        i + 1 < layout.params.size() ? layout.offsets[i + 1] : layout.numel;
    std::memset(full + begin * element_bytes(wire_), 0,
                (end - begin) * element_bytes(wire_));
  }
}

void GradientShards::push_pass(int unit, Slot& slot) {
  UnitState& state = units_[unit];
  const PlannedUnit& planned = plan_.units[unit];
  const int64_t numel = planned.trainable.shard_numel;
  float* sum = shards_[unit].grad;
  const bool counts = !state.levels.empty();
  if (counts && (state.num_passes >> state.levels.size()) > 0) {
    throw Error(ExitCode::kUsage, "more backward() calls than the plan has room for",
                "deterministic accumulation",
                "set Options::micro_batches_per_rank to the number of backward() calls "
                "between two steps");
  }
  float* target = counts ? (state.num_passes % 2 == 0 ? state.levels[0] : scratch_)
                         : (state.num_passes == 0 ? sum : scratch_);

  device_.compute_stream().record(*collected_);
  stream_.wait(*collected_);
  comm_.reduce_scatter(slot.memory, target, numel, wire_,
                       planned.fqn.empty() ? "(root)" : planned.fqn, stream_);
  device_.poison(slot.memory, slot_bytes_, stream_);
  stream_.record(*slot.idle);
  slot.unit = -1;
  if (target != scratch_) return;
  if (!counts) return queue_add(sum, sum, scratch_, numel);
  size_t level = 0;
  for (; state.num_passes >> level & 1; ++level)
    queue_add(scratch_, state.levels[level], scratch_, numel);
  stream_.copy(state.levels[level], scratch_, numel * 4);
}

void GradientShards::queue_add(float* sum, const float* left, const float* right,
                               int64_t numel) {
  as_host_stream(stream_).enqueue([=] {
    for (int64_t i = 0; i < numel; ++i) sum[i] = left[i] + right[i];
  });
}

void GradientShards::fold_levels(int unit) {
  UnitState& state = units_[unit];
  const int64_t numel = plan_.units[unit].trainable.shard_numel;
  float* sum = shards_[unit].grad;
  bool is_first = true;
  for (size_t level = 0; level < state.levels.size(); ++level) {
    if (!(state.num_passes >> level & 1)) continue;
    const float* part = state.levels[level];
    for (int64_t i = 0; i < numel; ++i) sum[i] = is_first ? part[i] : part[i] + sum[i];
    is_first = false;
  }
}

}  // namespace zero
