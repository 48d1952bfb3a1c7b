#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "engine/plan/slot_plan.h"
#include "zero/reports.h"

namespace zero {

struct Options;
struct UnitPlan;

// kOldHigh: where a draft leaves the high halves that it writes over; kWeights: what a
// GPU keeps of a unit whose masters are the host's.
enum class ShardRole {
  kMaster,
  kMasterLow,
  kState,
  kGradient,
  kCopy,
  kOldHigh,
  kWeights
};

// Where one unit's shards lie, and what its gathers read.
struct UnitHome {
  bool state_on_gpu = false;    // masters, states and gradients, which the GPU updates
  bool weights_on_gpu = false;  // in compute precision
  // Computed on as they lie there: nothing is gathered, but for parts that are decoded.
  bool in_place = false;
  bool sums_on_gpu = false;  // gradients are added up there
  bool has_draft = false;    // of its next masters and states (Options::speculate_bytes)

  // The states are the host's, and the sums are not.
  bool sums_leave() const { return sums_on_gpu && !state_on_gpu; }
};

// One array of this rank's shard of each of some parts; where the ranks of its group
// gather from it, of all that this rank has for them.
struct ShardArray {
  std::string owner;  // as in MemoryEntry
  ShardRole role;
  DType dtype;  // low halves are as large as what they complete
  std::vector<int> parts;
  int state = 0;  // of kState: which of the optimizer's
  bool on_gpu = false;
  bool is_draft = false;             // of what it would be behind the next update
  bool is_shared = false;            // with the ranks of its group, which read all of it
  std::vector<int64_t> numels = {};  // of each of the parts

  // Of the memory of the i-th part, and of all.
  int64_t bytes(size_t i) const;
  int64_t bytes() const;
};

// Every byte the engine will allocate on one rank, by owner and tier, known before
// anything is allocated.
struct MemoryPlan {
  std::vector<MemoryEntry> entries;
  std::vector<UnitHome> homes;  // of each unit
  // Of each part: do the ranks of a group have one copy of its weights, and compute
  // there?
  std::vector<bool> is_shared;
  // All masters first, then all states ...: what the optimizer streams lies together.
  std::vector<ShardArray> shard_arrays;
  // Of units but the root: those that stay gathered from forward on have classes of
  // their own.
  SlotPlan gather_ring;
  SlotPlan root_weights;        // of the root unit, which stays gathered
  SlotPlan gradient_ring;       // of parts
  int num_counter_levels = 0;   // of deterministic accumulation; 0: one running sum
  bool has_groups = false;      // of ranks: what one has summed is added up over all
  bool has_group_sums = false;  // of several passes
  // The counter's levels and a scratch shard: of gradients added up in the host's memory,
  // and of those on the GPU; there also sums whose states are the host's. Of groups, in
  // both, sums of several passes.
  int64_t accumulation_bytes = 0, gpu_accumulation_bytes = 0;
  int64_t scratch_numel = 0, gpu_scratch_numel = 0;
  int64_t landing_bytes = 0;      // one of the places where a device's gradients arrive
  bool has_kernels = false;       // a GPU works on gradients, or on states
  int64_t num_gpu_movements = 0;  // of all parameters, where a GPU updates some
  // What ranks with GPUs exchange passes through there: in their own memory, or the
  // host's.
  int64_t exchange_bytes = 0;
  // One rank adds gradients straight into its shards, where they lie beside the weights
  // that it computes on.
  bool gradient_in_place = false;

  bool has_state_on_gpu() const;
  bool has_weights_on_gpu() const;  // without state there
  bool has_drafts() const;
  bool adds_in_place(int unit) const;
  int64_t shared_bytes() const;  // of this rank, in what ranks share
};

constexpr int64_t kGpuNormBytes = 256;  // where a GPU adds a gradient's norm up
constexpr int64_t kMovementBytes = 16;  // what its updates see of a parameter

constexpr int kNumLandings = 4;  // some are filled while others are added

// Where units are computed: in the host's memory, of which the ranks of a group may have
// one in common, or in that of GPUs, whose ranks talk to each other by NCCL, or by way of
// the host's memory.
enum class UnitMemory { kHost, kSharedHost, kGpu, kGpuByHost };

inline bool is_of_host(UnitMemory where) {
  return where == UnitMemory::kHost || where == UnitMemory::kSharedHost;
}

// Where the shards of each planned unit lie, before anything is counted: what the options
// say of all units, and of each.
std::vector<UnitHome> make_homes(const UnitPlan& plan, const Options& options,
                                 UnitMemory where);

// The arrays that a rank keeps its shards in, those of the host's memory first.
// `is_shared` is of each part: MemoryPlan::is_shared.
std::vector<ShardArray> make_shard_arrays(const UnitPlan& plan, const Options& options,
                                          const std::vector<UnitHome>& homes,
                                          const std::vector<bool>& is_shared);

// Is there anything that no step changes, which ranks of one host could share?
bool has_fixed_weights(const UnitPlan& plan, const Options& options);

MemoryPlan make_memory_plan(const UnitPlan& plan, const Options& options,
                            UnitMemory where = UnitMemory::kHost);

// Bytes of one shard allocation, with the arena's padding.
int64_t shard_bytes(int64_t numel, int64_t element_bytes);

}  // namespace zero
