#pragma once
#include <cstdint>
#include <vector>

#include "offload/host_arena.h"
#include "offload/update.h"

namespace zero::launcher {

// Arrays that hold the shards of some units, laid end to end, each of 12 tensors that
// have the sizes of a transformer's block; and what a step does to them on the host.
class UpdateArrays {
 public:
  // Each fp32 array has about `array_bytes`, never more. All is touched by `threads`.
  UpdateArrays(int num_units, int64_t array_bytes, ThreadPool& threads);

  int64_t numel() const { return numel_; }
  // All of it as one piece, for the limit.
  UpdatePiece whole(bool with_copy) const;

  // One AdamW step on each tensor; with a copy of the masters in bf16 or without.
  void update(bool with_copy, ThreadPool& threads);
  // Add a second gradient to the first, unit by unit; with the norm of the sum or
  // without.
  void sum_gradients(bool with_norm, ThreadPool& threads) const;

 private:
  void fill(ThreadPool& threads) const;

  const std::vector<int64_t> tensors_;  // elements of each tensor of a unit
  const int64_t unit_numel_, numel_;
  HostArena arena_;
  float *grad_, *pass_, *master_, *exp_avg_, *exp_avg_sq_;  // (numel)
  uint16_t* copy_;                                          // (numel)
  int64_t step_ = 0;
};

}  // namespace zero::launcher
