#include "engine/plan/memory_plan.h"

#include <algorithm>
#include <bit>

#include "engine/plan/unit_homes.h"
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
    if (!part.is_frozen && is_meant(homes[part.unit]))
      bytes += shard_bytes(part.layout.group_numel, 4);
  }
  return bytes;
}

// The states are the host's, and the sums are not.
bool sums_leave(const UnitHome& home) { return home.sums_on_gpu && !home.state_on_gpu; }

// NCCL alone sums fp32 in an order of its own.
bool reduces_by_pieces(const Options& options) {
  return !options.inference &&
         (options.deterministic || options.reduce_dtype != DType::kFp32);
}

// The step's gradient can be kept in its own type where nothing is added to it there.
DType kept_gradients(const UnitPlan& plan, const Options& options,
                     const std::vector<UnitHome>& homes, bool on_gpu) {
  const bool is_whole = options.micro_batches_per_rank == 1 ||
                        plan.mesh.num_groups() > 1 ||
                        (!on_gpu && std::ranges::any_of(homes, sums_leave));
  return is_whole ? options.grad_dtype : DType::kFp32;
}

bool has_masters(const PlannedPart& part) { return part.kept == DType::kFp32; }

// Of shards whose masters lie there.
std::vector<ShardArray> shard_arrays(const UnitPlan& plan, const Options& options,
                                     const std::vector<UnitHome>& homes, bool on_gpu) {
  std::vector<int> trained;
  // Masters of parts that are trained, and of those that are frozen; whole and split.
  std::vector<int> whole[2], split[2];
  for (int p = 0; p < std::ssize(plan.parts); ++p) {
    if (homes[plan.parts[p].unit].state_on_gpu != on_gpu) continue;
    const bool is_frozen = plan.parts[p].is_frozen;
    const bool is_split =
        plan.parts[p].dtype != DType::kFp32 && options.master == MasterStorage::kSplit;
    if (!is_frozen) trained.push_back(p);
    if (!has_masters(plan.parts[p])) continue;
    (is_split ? split : whole)[is_frozen].push_back(p);
  }
  std::vector<ShardArray> arrays;
  const auto add_masters = [&](bool is_frozen) {
    if (!whole[is_frozen].empty())
      arrays.push_back({"masters", ShardRole::kMaster, DType::kFp32, whole[is_frozen]});
    if (!split[is_frozen].empty()) {
      arrays.push_back({"low halves of masters", ShardRole::kMasterLow, DType::kBf16,
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
    arrays.push_back({"gradients", ShardRole::kGradient,
                      kept_gradients(plan, options, homes, on_gpu), trained});
  }
  add_masters(/*is_frozen=*/true);
  for (const DType dtype : {DType::kBf16, DType::kFp16, DType::kInt8}) {
    ShardArray copies{name_of(dtype) + std::string(" copy"), ShardRole::kCopy, dtype, {}};
    ShardArray alone{"frozen weights", ShardRole::kCopy, dtype, {}};
    for (int p = 0; p < std::ssize(plan.parts); ++p) {
      const PlannedPart& part = plan.parts[p];
      if (homes[part.unit].state_on_gpu == on_gpu && part.gathered_type() == dtype)
        (has_masters(part) ? copies : alone).parts.push_back(p);
    }
    arrays.push_back(std::move(copies));
    arrays.push_back(std::move(alone));
  }
  std::erase_if(arrays, [](const ShardArray& array) { return array.parts.empty(); });
  for (ShardArray& array : arrays) array.on_gpu = on_gpu;
  return arrays;
}

// Of masters and states of units that have one.
std::vector<ShardArray> draft_arrays(const UnitPlan& plan,
                                     const std::vector<UnitHome>& homes,
                                     const std::vector<ShardArray>& arrays) {
  std::vector<ShardArray> drafts;
  for (ShardArray draft : arrays) {
    std::erase_if(draft.parts, [&](int part) {
      return plan.parts[part].is_frozen || !homes[plan.parts[part].unit].has_draft;
    });
    draft.owner = "drafts";
    draft.is_draft = true;
    const bool is_meant = draft.role == ShardRole::kMaster ||
                          draft.role == ShardRole::kMasterLow ||
                          draft.role == ShardRole::kState;
    if (!is_meant || draft.parts.empty()) continue;
    drafts.push_back(draft);
    if (draft.role != ShardRole::kMasterLow) continue;
    draft.role = ShardRole::kOldHigh;
    drafts.push_back(draft);
  }
  return drafts;
}

// Is it what a rank's group gathers of the part?
bool has_weights(const ShardArray& array, const PlannedPart& part,
                 const std::vector<UnitHome>& homes) {
  const UnitHome& home = homes[part.unit];
  const bool are_masters = array.role == ShardRole::kMaster && !array.is_draft;
  return home.weights_on_gpu && !home.state_on_gpu
             ? array.role == ShardRole::kWeights
             : array.role == ShardRole::kCopy ||
                   (are_masters && part.dtype == DType::kFp32);
}

// Weights that ranks share are an array of their own.
std::vector<ShardArray> with_shared_apart(const std::vector<ShardArray>& arrays,
                                          const UnitPlan& plan,
                                          const MemoryPlan& memory) {
  std::vector<ShardArray> apart;
  for (const ShardArray& array : arrays) {
    for (const bool is_shared : {false, true}) {
      ShardArray& one = apart.emplace_back(array);
      one.is_shared = is_shared;
      std::erase_if(one.parts, [&](int p) {
        return is_shared !=
               (memory.is_shared[p] && has_weights(array, plan.parts[p], memory.homes));
      });
      if (one.parts.empty()) apart.pop_back();
    }
  }
  return apart;
}

std::vector<ShardArray> all_shard_arrays(const UnitPlan& plan, const Options& options,
                                         const MemoryPlan& memory) {
  const std::vector<UnitHome>& homes = memory.homes;
  std::vector<ShardArray> arrays = with_shared_apart(
      shard_arrays(plan, options, homes, /*on_gpu=*/false), plan, memory);
  for (const ShardArray& draft : draft_arrays(plan, homes, arrays))
    arrays.push_back(draft);
  for (const ShardArray& array : shard_arrays(plan, options, homes, /*on_gpu=*/true))
    arrays.push_back(array);
  for (const DType dtype : {DType::kBf16, DType::kFp16, DType::kInt8, DType::kFp32}) {
    ShardArray weights{"weights", ShardRole::kWeights, dtype, {}, 0, /*on_gpu=*/true};
    for (int p = 0; p < std::ssize(plan.parts); ++p) {
      const UnitHome& home = homes[plan.parts[p].unit];
      if (home.weights_on_gpu && !home.state_on_gpu &&
          plan.parts[p].gathered_type() == dtype)
        weights.parts.push_back(p);
    }
    if (!weights.parts.empty()) arrays.push_back(weights);
  }
  // What a rank's group gathers, it has for all of the group's slices.
  for (ShardArray& array : arrays) {
    for (const int p : array.parts) {
      const FlatLayout& layout = plan.parts[p].layout;
      array.numels.push_back(has_weights(array, plan.parts[p], homes)
                                 ? layout.group_numel
                                 : layout.shard_numel);
    }
  }
  return arrays;
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
                               : gradient_bytes(plan, memory.homes, sums_leave));
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

int64_t ShardArray::bytes(size_t i) const {
  return round_up(bytes_of(dtype, numels[i]), on_gpu ? 256 : 64);  // as arenas do
}

int64_t ShardArray::bytes() const {
  int64_t total = 0;
  for (size_t i = 0; i < parts.size(); ++i) total += bytes(i);
  return total;
}

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

bool MemoryPlan::rounds_gradients() const {
  return std::ranges::any_of(shard_arrays, [](const ShardArray& array) {
    return array.role == ShardRole::kGradient && array.dtype != DType::kFp32;
  });
}

int64_t MemoryPlan::shared_bytes() const {
  int64_t total = 0;
  for (const ShardArray& array : shard_arrays)
    total += array.is_shared ? array.bytes() : 0;
  return total;
}

int64_t MemoryPlan::total_bytes() const {
  int64_t total = 0;
  for (const MemoryEntry& entry : entries) total += entry.bytes;
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
  memory.shard_arrays = all_shard_arrays(plan, options, memory);
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
