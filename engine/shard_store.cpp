#include "engine/shard_store.h"

namespace zero {
namespace {

int64_t arena_bytes(const UnitPlan& plan, DType dtype, bool inference) {
  int64_t bytes = 0;
  for (const PlannedUnit& unit : plan.units) {
    bytes += (inference ? 1 : 4) * shard_bytes(unit.trainable.shard_numel, 4) +
             shard_bytes(unit.frozen.shard_numel, 4);
    if (dtype == DType::kFloat32) continue;
    bytes += shard_bytes(unit.trainable.shard_numel, 2) +
             shard_bytes(unit.frozen.shard_numel, 2);
  }
  return bytes;
}

}  // namespace

ShardStore::ShardStore(const UnitPlan& plan, DType dtype, bool inference)
    : arena_(std::make_unique<HostArena>("shards", arena_bytes(plan, dtype, inference))),
      shards_(plan.units.size()) {
  // All masters first, then all moments ...: what the optimizer streams lies together.
  const auto each = [&](const std::string& what, auto UnitShard::*field,
                        const FlatLayout PlannedUnit::*layout) {
    using Element =
        std::remove_pointer_t<std::remove_reference_t<decltype(shards_[0].*field)>>;
    for (size_t u = 0; u < shards_.size(); ++u) {
      const PlannedUnit& unit = plan.units[u];
      shards_[u].*field = arena_->allocate_array<Element>(unit.fqn + " " + what,
                                                          (unit.*layout).shard_numel);
    }
  };
  each("master", &UnitShard::master, &PlannedUnit::trainable);
  if (!inference) {
    each("exp_avg", &UnitShard::exp_avg, &PlannedUnit::trainable);
    each("exp_avg_sq", &UnitShard::exp_avg_sq, &PlannedUnit::trainable);
    each("gradient", &UnitShard::grad, &PlannedUnit::trainable);
  }
  each("frozen", &UnitShard::frozen, &PlannedUnit::frozen);
  if (dtype == DType::kFloat32) return;
  each("bf16 copy", &UnitShard::copy, &PlannedUnit::trainable);
  each("frozen bf16 copy", &UnitShard::frozen_copy, &PlannedUnit::frozen);
}

}  // namespace zero
