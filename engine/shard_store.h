#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/unit_plan.h"
#include "offload/host_arena.h"

namespace zero {

// One unit's share of this rank, in host memory. Lengths are the layouts' shard_numel;
// all start as zero.
struct UnitShard {
  float* master = nullptr;      // (trainable)
  float* exp_avg = nullptr;     // (trainable)
  float* exp_avg_sq = nullptr;  // (trainable)
  float* grad = nullptr;        // (trainable) this step's gradient, summed over ranks and
                                // micro-batches
  float* frozen = nullptr;      // (frozen) masters that never change
  uint16_t* copy = nullptr;     // (trainable) bf16 of master; null when units compute in
                                // fp32
  uint16_t* frozen_copy = nullptr;  // (frozen)
};

// Owns the shards of all units, in one arena of exactly the planned size.
class ShardStore {
 public:
  // For inference there are neither moments nor gradients: their pointers are null.
  ShardStore(const UnitPlan& plan, DType dtype, bool inference);

  UnitShard& operator[](int unit) { return shards_[unit]; }
  int64_t bytes() const { return arena_->capacity_bytes(); }

 private:
  std::unique_ptr<HostArena> arena_;
  std::vector<UnitShard> shards_;
};

}  // namespace zero
