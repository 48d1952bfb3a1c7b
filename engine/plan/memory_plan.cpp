#include "engine/plan/memory_plan.h"

#include <algorithm>
#include <bit>

#include "engine/options.h"
#include "engine/plan/unit_plan.h"

namespace zero {
namespace {

// Enough that a piece's copy and its exchange take longer than to start them.
constexpr int64_t kExchangeBytes = 32 << 20;

int64_t full_bytes(const UnitPlan& plan, const PlannedUnit& unit) {
  int64_t bytes = 0;
  for (const int part : unit.parts) bytes += full_bytes(plan.parts[part]);
  return bytes;
}

int deepest(const UnitPlan& plan) {
  int depth = 1;
  for (const PlannedUnit& unit : plan.units) depth = std::max(depth, unit.depth);
  return depth;
}

int64_t trainable_bytes(const UnitPlan& plan) {
  int64_t bytes = 0;
  for (const PlannedPart& part : plan.parts)
    bytes += part.is_frozen ? 0 : shard_bytes(part.layout.shard_numel, 4);
  return bytes;
}

// NCCL alone sums fp32 in an order of its own.
bool reduces_by_pieces(const Options& options) {
  return !options.inference &&
         (options.deterministic || options.reduce_dtype != DType::kFp32);
}

// The step's gradient can be kept in its own type where one pass makes it.
DType kept_gradients(const Options& options) {
  return options.micro_batches_per_rank == 1 ? options.grad_dtype : DType::kFp32;
}

std::vector<ShardArray> shard_arrays(const UnitPlan& plan, const Options& options) {
  std::vector<int> trained, copied;
  // Masters of parts that are trained, and of those that are frozen; whole and split.
  std::vector<int> whole[2], split[2];
  for (int p = 0; p < std::ssize(plan.parts); ++p) {
    const bool is_frozen = plan.parts[p].is_frozen;
    const bool has_copy = plan.parts[p].dtype != DType::kFp32;
    const bool is_split = has_copy && options.master == MasterStorage::kSplit;
    if (!is_frozen) trained.push_back(p);
    if (has_copy) copied.push_back(p);
    (is_split ? split : whole)[is_frozen].push_back(p);
  }
  std::vector<ShardArray> arrays;
  const auto add_masters = [&](bool is_frozen) {
    if (!whole[is_frozen].empty())
      arrays.push_back({"masters", ShardRole::kMaster, DType::kFp32, whole[is_frozen]});
    if (!split[is_frozen].empty()) {
      arrays.push_back({"low halves of masters", ShardRole::kMasterLow, options.dtype,
                        split[is_frozen]});
    }
  };
  add_masters(/*is_frozen=*/false);
  if (!options.inference) {
    const auto states = states_of(options.optimizer.kind);
    for (int i = 0; i < std::ssize(states); ++i) {
      arrays.push_back(
          {std::string(states[i]), ShardRole::kState, options.state_dtype, trained, i});
    }
    arrays.push_back(
        {"gradients", ShardRole::kGradient, kept_gradients(options), trained});
  }
  add_masters(/*is_frozen=*/true);
  if (options.dtype != DType::kFp32) {
    arrays.push_back({name_of(options.dtype) + std::string(" copy"), ShardRole::kCopy,
                      options.dtype, copied});
  }
  return arrays;
}

// Arrays of one owner are one entry.
void add_shards(MemoryPlan& memory, const UnitPlan& plan) {
  for (const ShardArray& array : memory.shard_arrays) {
    const auto found =
        std::ranges::find(memory.entries, array.owner, &MemoryEntry::owner);
    if (found != memory.entries.end())
      found->bytes += array.bytes(plan);
    else
      memory.entries.push_back({array.owner, "host", array.bytes(plan)});
  }
}

}  // namespace

int64_t ShardArray::bytes(const UnitPlan& plan) const {
  int64_t bytes = 0;
  for (const int part : parts)
    bytes += shard_bytes(plan.parts[part].layout.shard_numel, size_of(dtype));
  return bytes;
}

int64_t MemoryPlan::total_bytes() const {
  int64_t total = 0;
  for (const MemoryEntry& entry : entries) total += entry.bytes;
  return total;
}

int64_t largest_gradient_shard(const UnitPlan& plan) {
  int64_t numel = 0;
  for (const PlannedPart& part : plan.parts)
    numel = std::max(numel, part.is_frozen ? 0 : part.layout.shard_numel);
  return numel;
}

int64_t shard_bytes(int64_t numel, int64_t element_bytes) {
  return round_up(numel * element_bytes, 64);
}

MemoryPlan make_memory_plan(const UnitPlan& plan, const Options& options, int world_size,
                            UnitMemory where) {
  const bool has_own_memory = where != UnitMemory::kHost;
  MemoryPlan memory;
  memory.in_place = world_size == 1 && !has_own_memory && !options.stream_always;
  memory.shard_arrays = shard_arrays(plan, options);
  add_shards(memory, plan);

  const int num_inner = static_cast<int>(plan.units.size()) - 1;
  const int64_t largest_shard = largest_gradient_shard(plan);
  if (!memory.in_place) {
    std::vector<int64_t> sizes;
    for (const PlannedUnit& unit : plan.units) sizes.push_back(full_bytes(plan, unit));
    memory.root_weights = make_slot_plan({sizes.front()}, 1);
    sizes.front() = 0;
    const int num_at_once =
        deepest(plan) + std::min(num_inner - deepest(plan), options.prefetch);
    memory.gather_ring =
        make_slot_plan(sizes, options.reshard_after_forward ? num_at_once : num_inner);
  }
  if (options.deterministic && options.micro_batches_per_rank > 1) {
    memory.num_counter_levels =
        std::bit_width(static_cast<uint64_t>(options.micro_batches_per_rank));
  }
  memory.gradient_in_place = memory.in_place && memory.num_counter_levels == 0 &&
                             options.reduce_dtype == DType::kFp32;
  if (!memory.gradient_in_place && largest_shard > 0 && !options.inference) {
    std::vector<int64_t> sizes;
    for (const PlannedPart& part : plan.parts) {
      sizes.push_back(part.is_frozen ? 0
                                     : part.layout.numel * size_of(options.reduce_dtype));
    }
    memory.gradient_ring = make_slot_plan(sizes, 2);
    memory.accumulation_bytes =
        shard_bytes(largest_shard, 4) + trainable_bytes(plan) * memory.num_counter_levels;
    if (has_own_memory) {
      // What ranks have summed is fp32.
      const DType landed = world_size > 1 ? DType::kFp32 : options.reduce_dtype;
      memory.landing_bytes = shard_bytes(largest_shard, size_of(landed));
    }
  }
  if (has_own_memory && world_size > 1 &&
      (where == UnitMemory::kGpuByHost || reduces_by_pieces(options)))
    memory.exchange_bytes = std::max<int64_t>(kExchangeBytes, 1024 * world_size);
  const auto add = [&](const std::string& owner, const std::string& tier, int64_t bytes) {
    if (bytes > 0) memory.entries.push_back({owner, tier, bytes});
  };
  add("accumulation", "host", memory.accumulation_bytes);
  add("gradient landing", "host", kNumLandings * memory.landing_bytes);
  add("exchange", where == UnitMemory::kGpu ? "device" : "host", memory.exchange_bytes);
  add("root weights", "device", memory.root_weights.bytes());
  add("gather ring", "device", memory.gather_ring.bytes());
  add("gradient ring", "device", memory.gradient_ring.bytes());
  return memory;
}

}  // namespace zero
