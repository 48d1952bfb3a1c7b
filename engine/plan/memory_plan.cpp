#include "engine/plan/memory_plan.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "engine/plan/unit_plan.h"
#include "zero/options.h"

namespace zero {
namespace {

// Enough that a piece's copy and its exchange take longer than to start them.
constexpr int64_t kExchangeBytes = 32 << 20;
constexpr int64_t kLandingBytes = 4 << 20;

// What a unit takes in a slot: all parts that are not computed on where they lie.
int64_t slot_bytes(const UnitPlan& plan, const MemoryPlan& memory, size_t unit) {
  int64_t bytes = 0;
  for (const int p : plan.units[unit].parts) {
    const bool is_there = memory.homes[unit].in_place || memory.is_shared[p];
    if (!is_there || plan.parts[p].is_decoded()) bytes += full_bytes(plan.parts[p]);
  }
  return bytes;
}

// Those that no step changes.
bool is_fixed(const PlannedPart& part, const Options& options) {
  return options.inference || part.is_frozen;
}

std::vector<bool> shared_parts(const UnitPlan& plan, const Options& options,
                               UnitMemory where) {
  std::vector<bool> are_shared;
  const bool may = where == UnitMemory::kSharedHost && !options.stream_always;
  for (const PlannedPart& part : plan.parts)
    are_shared.push_back(may && part.layout.numel > 0 && is_fixed(part, options));
  return are_shared;
}

int deepest(const UnitPlan& plan) {
  int depth = 1;
  for (const PlannedUnit& unit : plan.units) depth = std::max(depth, unit.depth);
  return depth;
}

// In fp32, of sums of passes whose units' home is such a one.
template <class Predicate>
int64_t gradient_bytes(const UnitPlan& plan, const std::vector<UnitHome>& homes,
                       const Predicate& is_meant) {
  int64_t bytes = 0;
  for (const PlannedPart& part : plan.parts) {
    if (!part.is_frozen && std::invoke(is_meant, homes[part.unit]))
      bytes += shard_bytes(part.layout.group_numel, 4);
  }
  return bytes;
}

// NCCL alone sums fp32 in an order of its own.
bool reduces_by_pieces(const Options& options) {
  return !options.inference &&
         (options.deterministic || options.reduce_dtype != DType::kFp32);
}

// Arrays of one owner in one place are one entry.
void add_shards(MemoryPlan& memory) {
  for (const ShardArray& array : memory.shard_arrays) {
    const std::string tier = array.on_gpu ? "device" : "host";
    const auto found =
        std::ranges::find_if(memory.entries, [&](const MemoryEntry& entry) {
          return entry.owner == array.owner && entry.tier == tier;
        });
    if (found != memory.entries.end())
      found->bytes += array.bytes();
    else
      memory.entries.push_back({array.owner, tier, array.bytes()});
  }
}

// Elements of the largest sum of passes that is made in the host's memory, or on the GPU;
// 0: there is none.
int64_t largest_sum(const UnitPlan& plan, const std::vector<UnitHome>& homes,
                    bool on_gpu) {
  int64_t numel = 0;
  for (const PlannedPart& part : plan.parts) {
    if (!part.is_frozen && homes[part.unit].sums_on_gpu == on_gpu)
      numel = std::max(numel, part.layout.group_numel);
  }
  return numel;
}

// Where gradients are added up in the host's memory that do not go straight into their
// shards.
void add_accumulation(MemoryPlan& memory, const UnitPlan& plan, const Options& options,
                      bool lands_there) {
  const int64_t numel = largest_sum(plan, memory.homes, /*on_gpu=*/false);
  if (numel == 0) return;
  if (!lands_there) memory.landing_bytes = std::min(shard_bytes(numel, 4), kLandingBytes);
  const int num_sums = std::max(memory.num_counter_levels, memory.has_group_sums ? 1 : 0);
  if (!lands_there && num_sums == 0) return;
  const auto is_here = [](const UnitHome& home) { return !home.sums_on_gpu; };
  // Sums of groups travel from there in 16 bits.
  const bool are_rounded = memory.has_groups && options.reduce_dtype != DType::kFp32;
  memory.scratch_numel = are_rounded ? numel + numel / 2 : numel;
  memory.accumulation_bytes = shard_bytes(memory.scratch_numel, 4) +
                              gradient_bytes(plan, memory.homes, is_here) * num_sums;
}

// The same on a GPU. One rank's gradient is added as it lies in its slot; what ranks have
// summed passes through the scratch shard.
void add_gpu_accumulation(MemoryPlan& memory, const UnitPlan& plan, bool lands_there) {
  const auto is_there = [](const UnitHome& home) { return home.sums_on_gpu; };
  const int levels = memory.num_counter_levels;
  int64_t numel = largest_sum(plan, memory.homes, /*on_gpu=*/true);
  if (lands_there) numel = std::max(numel, largest_sum(plan, memory.homes, false));
  if (lands_there || levels > 0 || memory.has_groups) memory.gpu_scratch_numel = numel;
  memory.gpu_accumulation_bytes =
      shard_bytes(memory.gpu_scratch_numel, 4) +
      (levels > 0              ? gradient_bytes(plan, memory.homes, is_there) * levels
       : memory.has_group_sums ? gradient_bytes(plan, memory.homes, is_there)
       : memory.has_groups     ? 0
                           : gradient_bytes(plan, memory.homes, &UnitHome::sums_leave));
}

// Where gradients are on their way. Ranks sum them in the host's memory, or on their GPUs
// by NCCL; a rank alone has them where it computes.
void add_accumulations(MemoryPlan& memory, const UnitPlan& plan, const Options& options,
                       UnitMemory where) {
  const bool is_alone = plan.mesh.group == 1;
  const bool is_by_host = where == UnitMemory::kGpuByHost && !is_alone;
  const bool has_own_memory = !is_of_host(where);
  if (has_own_memory || !memory.adds_in_place(0))
    add_accumulation(memory, plan, options, !has_own_memory || is_by_host);
  if (has_own_memory) add_gpu_accumulation(memory, plan, !is_alone && !is_by_host);
}

}  // namespace

bool MemoryPlan::has_state_on_gpu() const {
  return std::ranges::any_of(homes, &UnitHome::state_on_gpu);
}

bool MemoryPlan::has_weights_on_gpu() const {
  return std::ranges::any_of(homes, [](const UnitHome& home) {
    return home.weights_on_gpu && !home.state_on_gpu;
  });
}

bool MemoryPlan::has_drafts() const {
  return std::ranges::any_of(homes, &UnitHome::has_draft);
}

bool MemoryPlan::adds_in_place(int unit) const {
  const UnitHome& home = homes[unit];
  return gradient_in_place && home.in_place && home.state_on_gpu == home.weights_on_gpu;
}

int64_t MemoryPlan::shared_bytes() const {
  int64_t total = 0;
  for (const ShardArray& array : shard_arrays)
    total += array.is_shared ? array.bytes() : 0;
  return total;
}

bool has_fixed_weights(const UnitPlan& plan, const Options& options) {
  return std::ranges::any_of(
      plan.parts, [&](const PlannedPart& part) { return is_fixed(part, options); });
}

int64_t shard_bytes(int64_t numel, int64_t element_bytes) {
  return round_up(numel * element_bytes, 64);
}

MemoryPlan make_memory_plan(const UnitPlan& plan, const Options& options,
                            UnitMemory where) {
  const bool has_own_memory = !is_of_host(where);
  MemoryPlan memory;
  memory.homes = make_homes(plan, options, where);
  memory.is_shared = shared_parts(plan, options, where);
  memory.shard_arrays = make_shard_arrays(plan, options, memory.homes, memory.is_shared);
  add_shards(memory);

  const int num_inner = static_cast<int>(plan.units.size()) - 1;
  // Of what is gathered and released, and of what stays gathered.
  std::vector<int64_t> unit_bytes(plan.units.size()), kept_bytes(plan.units.size());
  int64_t root_bytes = 0;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    int64_t& bytes = u == 0                   ? root_bytes
                     : plan.units[u].reshards ? unit_bytes[u]
                                              : kept_bytes[u];
    bytes = slot_bytes(plan, memory, u);
  }
  memory.root_weights = make_slot_plan({root_bytes}, 1);
  const int num_at_once =
      deepest(plan) + std::min(num_inner - deepest(plan), options.prefetch);
  // Units that are not nested are used one after the other.
  const AtOnce which = deepest(plan) > 1 ? AtOnce::kAny : AtOnce::kNeighbours;
  memory.gather_ring = join(make_slot_plan(unit_bytes, num_at_once, which),
                            make_slot_plan(kept_bytes, num_inner));
  if (options.deterministic && options.micro_batches_per_rank > 1) {
    memory.num_counter_levels =
        std::bit_width(static_cast<uint64_t>(options.micro_batches_per_rank));
  }
  memory.has_groups = plan.mesh.num_groups() > 1;
  memory.has_group_sums = memory.has_groups && options.micro_batches_per_rank > 1;
  memory.gradient_in_place = !memory.has_groups && memory.num_counter_levels == 0 &&
                             options.reduce_dtype == DType::kFp32;
  if (!options.inference) {
    std::vector<int64_t> sizes;
    for (const PlannedPart& part : plan.parts) {
      sizes.push_back(part.is_frozen || memory.adds_in_place(part.unit)
                          ? 0
                          : part.layout.numel * size_of(options.reduce_dtype));
    }
    memory.gradient_ring = make_slot_plan(sizes, 2, AtOnce::kNeighbours);
  }
  memory.has_kernels =
      has_own_memory && (!options.inference || memory.has_state_on_gpu());
  if (!options.inference && memory.has_state_on_gpu())
    memory.num_gpu_movements = std::ssize(plan.rules);
  if (!options.inference) add_accumulations(memory, plan, options, where);
  const int64_t num_ranks = plan.mesh.size;
  if (has_own_memory && num_ranks > 1 &&
      ((where == UnitMemory::kGpuByHost && plan.mesh.group > 1) ||
       (where == UnitMemory::kGpu && reduces_by_pieces(options))))
    memory.exchange_bytes = std::max<int64_t>(kExchangeBytes, 1024 * num_ranks);
  const auto add = [&](const std::string& owner, const std::string& tier, int64_t bytes) {
    if (bytes > 0) memory.entries.push_back({owner, tier, bytes});
  };
  add("accumulation", "host", memory.accumulation_bytes);
  add("accumulation", "device", memory.gpu_accumulation_bytes);
  if (memory.has_kernels) add("gradient norm", "device", kGpuNormBytes);
  add("movement", "device", kMovementBytes * memory.num_gpu_movements);
  add("gradient landing", "host", kNumLandings * memory.landing_bytes);
  add("exchange", where == UnitMemory::kGpu ? "device" : "host", memory.exchange_bytes);
  add("root weights", "device", memory.root_weights.bytes());
  add("gather ring", "device", memory.gather_ring.bytes());
  add("gradient ring", "device", memory.gradient_ring.bytes());
  return memory;
}

}  // namespace zero
