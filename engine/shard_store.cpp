#include "engine/shard_store.h"

#include <string>

#include "engine/plan/memory_plan.h"
#include "engine/plan/unit_plan.h"

namespace zero {
namespace {

int64_t arena_bytes(const UnitPlan& plan, const MemoryPlan& memory) {
  int64_t bytes = 0;
  for (const ShardArray& array : memory.shard_arrays) bytes += array.bytes(plan);
  return bytes;
}

void place(std::byte* bytes, const ShardArray& array, PartShard& shard) {
  auto* floats = reinterpret_cast<float*>(bytes);
  auto* halves = reinterpret_cast<uint16_t*>(bytes);
  switch (array.role) {
    case ShardRole::kMaster:
      shard.master = floats;
      break;
    case ShardRole::kMasterLow:
      shard.master_low = halves;
      break;
    case ShardRole::kState:
      (array.dtype == DType::kFp32 ? void(shard.state[array.state] = floats)
                                   : void(shard.state_bf16[array.state] = halves));
      break;
    case ShardRole::kGradient:
      (array.dtype == DType::kFp32 ? void(shard.grad = floats)
                                   : void(shard.grad_bf16 = halves));
      break;
    case ShardRole::kCopy:
      shard.copy = halves;
      break;
  }
}

}  // namespace

StoredValues PartShard::masters(int64_t begin, int64_t numel) const {
  if (!master_low) return {master + begin, numel};
  return StoredValues::in_halves(copy + begin, master_low + begin, numel);
}

StoredValues PartShard::states(int index, int64_t begin, int64_t numel) const {
  if (state[index]) return {state[index] + begin, numel};
  if (!state_bf16[index]) return {};
  return StoredValues::in_bf16(state_bf16[index] + begin, numel);
}

ShardStore::ShardStore(const UnitPlan& plan, const MemoryPlan& memory)
    : arena_(std::make_unique<HostArena>("shards", arena_bytes(plan, memory))),
      shards_(plan.parts.size()) {
  for (const ShardArray& array : memory.shard_arrays) {
    for (const int part : array.parts) {
      const PlannedPart& planned = plan.parts[part];
      std::byte* bytes =
          arena_->allocate(planned.tag + " " + array.owner,
                           planned.layout.shard_numel * size_of(array.dtype));
      place(bytes, array, shards_[part]);
    }
  }
}

}  // namespace zero
