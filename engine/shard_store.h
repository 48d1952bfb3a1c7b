#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "offload/host_arena.h"

namespace zero {

struct UnitPlan;

// This rank's share of one PlannedPart, in host memory. Lengths are the layout's
// shard_numel; all start as zero. A frozen part has a master alone.
struct PartShard {
  float* master = nullptr;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  float* grad = nullptr;     // this step's gradient, summed over ranks and micro-batches
  uint16_t* copy = nullptr;  // bf16 of master; null for a part that computes in fp32
};

// Owns the shards of all parts, in one arena of exactly the planned size.
class ShardStore {
 public:
  // For inference there are neither moments nor gradients: their pointers are null.
  ShardStore(const UnitPlan& plan, bool inference);

  PartShard& operator[](size_t part) { return shards_[part]; }
  int64_t bytes() const { return arena_->capacity_bytes(); }

 private:
  std::unique_ptr<HostArena> arena_;
  std::vector<PartShard> shards_;
};

}  // namespace zero
