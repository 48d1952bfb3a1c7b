#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/dtype.h"
#include "engine/plan/slot_plan.h"

namespace zero {

struct Options;
struct UnitPlan;

enum class ShardRole { kMaster, kMasterLow, kState, kGradient, kCopy };

// One array of this rank's shard of each of some parts, in host memory.
struct ShardArray {
  std::string owner;  // as in MemoryEntry
  ShardRole role;
  DType dtype;  // low halves are as large as what they complete
  std::vector<int> parts;
  int state = 0;  // of kState: which of the optimizer's

  int64_t bytes(const UnitPlan& plan) const;
};

struct MemoryEntry {
  std::string owner;  // "masters", "exp_avg", "gather ring", ...
  std::string tier;   // "host" or "device"
  int64_t bytes = 0;
};

// Every byte the engine will allocate on one rank, by owner and tier, known before
// anything is allocated.
struct MemoryPlan {
  std::vector<MemoryEntry> entries;
  // All masters first, then all states ...: what the optimizer streams lies together.
  std::vector<ShardArray> shard_arrays;
  SlotPlan gather_ring;            // of units but the root
  SlotPlan root_weights;           // of the root unit, which stays gathered
  SlotPlan gradient_ring;          // of parts
  int num_counter_levels = 0;      // of deterministic accumulation; 0: one running sum
  int64_t accumulation_bytes = 0;  // the counter's levels and a scratch shard
  int64_t landing_bytes = 0;       // one of the places where a device's gradients arrive
  // What ranks with GPUs exchange passes through there: in their own memory, or the
  // host's.
  int64_t exchange_bytes = 0;
  bool gradient_in_place = false;  // one rank adds gradients straight into its shards
  bool in_place = false;  // one rank computes on its own shards: nothing is gathered

  int64_t total_bytes() const;
};

constexpr int kNumLandings = 2;  // one is filled while the other is added

// Where units are computed: in the host's memory, or in that of GPUs, whose ranks talk to
// each other by NCCL, or by way of the host's memory.
enum class UnitMemory { kHost, kGpu, kGpuByHost };

MemoryPlan make_memory_plan(const UnitPlan& plan, const Options& options, int world_size,
                            UnitMemory where = UnitMemory::kHost);

// Elements of the largest shard that has a gradient; 0: none has.
int64_t largest_gradient_shard(const UnitPlan& plan);

// Bytes of one shard allocation, with the arena's padding.
int64_t shard_bytes(int64_t numel, int64_t element_bytes);

}  // namespace zero
