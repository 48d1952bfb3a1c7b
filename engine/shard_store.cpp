#include "engine/shard_store.h"

#include <algorithm>
#include <type_traits>

#include "engine/plan/memory_plan.h"
#include "engine/plan/unit_plan.h"

namespace zero {
namespace {

bool is_trained(const PlannedPart& part) { return !part.is_frozen; }
bool is_frozen(const PlannedPart& part) { return part.is_frozen; }
bool has_copy(const PlannedPart& part) { return part.dtype != DType::kFp32; }

int64_t arena_bytes(const UnitPlan& plan, bool inference) {
  int64_t bytes = 0;
  for (const PlannedPart& part : plan.parts) {
    const int64_t master_bytes = shard_bytes(part.layout.shard_numel, 4);
    bytes += (inference || part.is_frozen ? 1 : 4) * master_bytes;
    if (has_copy(part))
      bytes += shard_bytes(part.layout.shard_numel, size_of(part.dtype));
  }
  return bytes;
}

}  // namespace

ShardStore::ShardStore(const UnitPlan& plan, bool inference)
    : arena_(std::make_unique<HostArena>("shards", arena_bytes(plan, inference))),
      shards_(plan.parts.size()) {
  // All masters first, then all moments ...: what the optimizer streams lies together.
  const auto each = [&](const std::string& what, auto PartShard::*field,
                        bool (*has)(const PlannedPart&)) {
    using Element =
        std::remove_pointer_t<std::remove_reference_t<decltype(shards_[0].*field)>>;
    for (size_t p = 0; p < shards_.size(); ++p) {
      const PlannedPart& part = plan.parts[p];
      if (!has(part)) continue;
      shards_[p].*field =
          arena_->allocate_array<Element>(part.tag + " " + what, part.layout.shard_numel);
    }
  };
  each("master", &PartShard::master, is_trained);
  if (!inference) {
    each("exp_avg", &PartShard::exp_avg, is_trained);
    each("exp_avg_sq", &PartShard::exp_avg_sq, is_trained);
    each("gradient", &PartShard::grad, is_trained);
  }
  each("master", &PartShard::master, is_frozen);
  each("bf16 copy", &PartShard::copy, has_copy);
}

}  // namespace zero
