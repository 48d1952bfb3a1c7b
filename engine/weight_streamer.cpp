#include "engine/weight_streamer.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace zero {
namespace {

GatherSource source_of(int index, const PlannedUnit& unit, const UnitShard& shard,
                       DType dtype) {
  const bool is_fp32 = dtype == DType::kFloat32;
  GatherSource source;
  source.unit = index;
  source.fqn = unit.fqn.empty() ? "(root)" : unit.fqn;
  source.trainable_shard = is_fp32 ? static_cast<const void*>(shard.master) : shard.copy;
  source.trainable_shard_bytes = unit.trainable.shard_numel * (is_fp32 ? 4 : 2);
  source.frozen_shard =
      is_fp32 ? static_cast<const void*>(shard.frozen) : shard.frozen_copy;
  source.frozen_shard_bytes = unit.frozen.shard_numel * (is_fp32 ? 4 : 2);
  return source;
}

}  // namespace

WeightStreamer::WeightStreamer(const UnitPlan& plan, const MemoryPlan& memory,
                               const Options& options, ShardStore& shards,
                               std::vector<std::vector<at::Tensor>> params,
                               Device& device, Communicator& comm, Stream& stream)
    : plan_(plan),
      in_place_(memory.in_place),
      num_prefetch_(options.prefetch),
      units_(plan.units.size()) {
  if (!in_place_) {
    ring_ =
        std::make_unique<GatherRing>(device, comm, stream, "gather ring",
                                     memory.gather_slot_bytes, memory.num_gather_slots);
    root_ =
        std::make_unique<GatherRing>(device, comm, stream, "root weights",
                                     memory.root_bytes, memory.root_bytes > 0 ? 1 : 0);
  }
  // The model is touched last: until here, what fails leaves it as it was.
  const at::ScalarType type =
      options.dtype == DType::kFloat32 ? at::kFloat : at::kBFloat16;
  for (size_t u = 0; u < units_.size(); ++u) {
    const PlannedUnit& unit = plan.units[u];
    const auto split =
        params[u].begin() + static_cast<std::ptrdiff_t>(unit.trainable.params.size());
    units_[u].source =
        source_of(static_cast<int>(u), unit, shards[static_cast<int>(u)], options.dtype);
    units_[u].trainable = std::make_unique<FlatParams>(
        unit.trainable, std::vector<at::Tensor>(params[u].begin(), split), type);
    units_[u].frozen = std::make_unique<FlatParams>(
        unit.frozen, std::vector<at::Tensor>(split, params[u].end()), type);
    units_[u].is_empty = unit.trainable.numel + unit.frozen.numel == 0;
  }
}

WeightStreamer::~WeightStreamer() = default;

void WeightStreamer::unshard(int index, Direction direction) {
  UnitWeights& unit = units_[index];
  ++unit.num_users;
  if (!unit.is_empty && (unit.num_users == 1)) {
    if (in_place_) {
      unit.trainable->point_to(const_cast<void*>(unit.source.trainable_shard));
      unit.frozen->point_to(const_cast<void*>(unit.source.frozen_shard));
    } else {
      auto* weights = static_cast<std::byte*>(ring_of(index).acquire(unit.source));
      unit.trainable->point_to(weights);
      unit.frozen->point_to(weights + unit.trainable->bytes());
    }
  }
  if (!in_place_) prefetch_after(index, direction);
}

void WeightStreamer::reshard(int index) {
  UnitWeights& unit = units_[index];
  assert(unit.num_users > 0);
  if (--unit.num_users > 0 || unit.is_empty) return;
  unit.trainable->release();
  unit.frozen->release();
  if (!in_place_) ring_of(index).release(index);
}

void WeightStreamer::invalidate() {
  assert(num_unsharded() == 0);
  if (in_place_) return;
  ring_->invalidate();
  root_->invalidate();
}

std::array<const FlatParams*, 2> WeightStreamer::parts_of(int unit) const {
  return {units_[unit].trainable.get(), units_[unit].frozen.get()};
}

WeightWatch WeightStreamer::watch(int unit, bool compares_values) const {
  WeightWatch watch;
  for (const FlatParams* part : parts_of(unit)) {
    for (const at::Tensor& param : part->params())
      watch.versions.push_back(param._version());
    if (compares_values)
      watch.values.insert(watch.values.end(), part->memory(),
                          part->memory() + part->bytes());
  }
  return watch;
}

std::string WeightStreamer::first_changed(int unit, const WeightWatch& watch) const {
  size_t index = 0;
  const std::byte* values = watch.values.data();
  for (const FlatParams* part : parts_of(unit)) {
    for (size_t i = 0; i < part->params().size(); ++i, ++index) {
      const at::Tensor& param = part->params()[i];
      const int64_t begin =
          static_cast<const std::byte*>(param.const_data_ptr()) - part->memory();
      const bool is_same =
          values == nullptr ||
          std::memcmp(param.const_data_ptr(), values + begin, param.nbytes()) == 0;
      if (!is_same || static_cast<int64_t>(param._version()) != watch.versions[index])
        return part->fqn(i);
    }
    if (values) values += part->bytes();
  }
  return "";
}

void WeightStreamer::restore(int unit, const WeightWatch& watch) {
  if (!in_place_) return ring_of(unit).forget(unit);
  const std::byte* values = watch.values.data();
  for (const FlatParams* part : parts_of(unit)) {
    if (values == nullptr) return;
    std::copy_n(values, part->bytes(), part->memory());
    values += part->bytes();
  }
}

int WeightStreamer::num_unsharded() const {
  return static_cast<int>(std::count_if(units_.begin(), units_.end(),
                                        [](const auto& u) { return u.num_users > 0; }));
}

int64_t WeightStreamer::num_gathers() const {
  return in_place_ ? 0 : ring_->num_gathers() + root_->num_gathers();
}

// The next units in module order, or the previous ones in backward. The root comes first
// in forward order, so units follow it.
void WeightStreamer::prefetch_after(int index, Direction direction) {
  const int step = direction == Direction::kForward ? 1 : -1;
  int left = num_prefetch_;
  for (int next = index + step;
       left > 0 && next > 0 && next < static_cast<int>(units_.size()); next += step) {
    if (units_[next].is_empty) continue;
    ring_->prefetch(units_[next].source);
    --left;
  }
}

}  // namespace zero
