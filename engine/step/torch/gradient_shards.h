#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "engine/device/device_arena.h"
#include "engine/step/addition.h"
#include "engine/step/shard_kernels.h"
#include "engine/step/torch/gradient_ring.h"
#include "engine/weights/workplace.h"

namespace zero {

// Turn the full gradients of each pass into this rank's shard of their sum over ranks and
// passes, in fp32 until it is finished, then as Options::grad_dtype says.
//
// Per pass and part: collect() (once per backward of its unit), then reduce(). Until then
// gradients stay where autograd put them, and several are summed in fp32; a slot of the
// ring is taken for the reduction alone. A reduced pass is added to a running sum, or, in
// deterministic mode, enters a binary counter of partial sums, which together with the
// pair tree over ranks is one tree over all micro-batches: the same bits on 1, 2, 4 ...
// ranks. Reductions run on the given stream, while the training thread goes on; where the
// device has its own memory, they end in landings of the host, from which a worker adds,
// or, where a part's state lies in that memory, they stay there, and kernels add.
//
// The pass that completes a part's sum, number Options::micro_batches_per_rank, also
// takes its norm; where there are fewer or more, finish() reads the sums once more.
class GradientShards {
 public:
  GradientShards(const Workplace& at, Stream& stream);

  // Add the .grad of the part's parameters (in layout order) to this pass's gradient, and
  // clear them. Frozen parts have none: nothing happens.
  void collect(int part, const std::vector<at::Tensor>& params);
  // Queue the reduction of what was collected in this pass; nothing collected counts as
  // zeros.
  void reduce(int part);
  // Wait for all reductions; then the gradient of every PartShard is that of the step,
  // and the result is this rank's share of its norm. Begins the next step.
  GradientNorm finish();
  // Wait for all reductions and forget what was collected and reduced in this step.
  void discard();

  // Of each ParamDescription: did it get a gradient here in this step? 0 or 1.
  const std::vector<int64_t>& used() const { return used_; }
  int64_t num_reductions() const { return num_reductions_; }
  // Of them, what this rank gave other ranks.
  int64_t reduced_bytes() const { return reduced_bytes_; }
  int64_t host_bytes() const;

 private:
  // Where a device's gradient arrives in the host's memory, on its way into the sum.
  struct Landing {
    std::byte* memory = nullptr;
    Event arrived, added;
  };
  // Does the addition with what ranks have summed of `full` as its right side.
  using Land = void (GradientShards::*)(int part, void* full, Addition addition);
  struct PartState {
    explicit PartState(NormType type) : norm(type) {}

    int64_t num_passes = 0;        // reduced in this step
    std::vector<at::Tensor> held;  // of each parameter: this pass's gradient so far
    std::vector<float*> levels;    // of the counter: level k holds 2^k passes
    GradientNorm norm;    // of the sum, once the last planned pass has entered it
    Land land = nullptr;  // on the host, by its worker, or on the GPU
  };

  void make_accumulation();
  void make_landings(int64_t bytes);
  bool is_on_gpu(int part) const { return at_.shards[part].gpu != nullptr; }
  float* scratch_of(int part) const { return scratch_[is_on_gpu(part)]; }
  Stream& sums_of(int part) { return is_on_gpu(part) ? gpu_sums_ : sums_; }
  void add_in_place(int part);
  void push_pass(int part, GradientRing::Slot& slot);
  Addition of_next_pass(int part);
  void land_on_host(int part, void* full, Addition addition);
  void land_by_worker(int part, void* full, Addition addition);
  void land_on_gpu(int part, void* full, Addition addition);
  void sum_over_ranks(int part, void* full, float* shard, const SummedPiece& then = {});
  void point_to(Addition& addition, const void* gradient) const;
  void queue_sum(int part, const Addition& addition);
  void add(int part, const Addition& addition, int64_t numel);
  void carry(int part);
  Addition into_sum(size_t part, int64_t offset = 0) const;
  void finish_in(Addition& addition, PartState& state) const;
  void fold_levels(int part, int64_t num_passes);
  void finish_part(int part);
  void wait();
  void forget();
  bool needs_another_pass(int part) const;
  bool completes(const PartState& state) const {
    return state.num_passes + 1 == at_.options.micro_batches_per_rank;
  }

  const Workplace at_;
  const DType wire_;
  Stream& stream_;
  Stream& gpu_sums_;  // where a GPU adds
  GradientRing ring_;
  std::vector<PartState> parts_;
  std::unique_ptr<HostArena> accumulation_;
  std::unique_ptr<DeviceArena> gpu_accumulation_;
  // One shard of the largest part, in the host's memory and on the GPU: a pass on its way
  // into the sum.
  float* scratch_[2] = {};
  std::unique_ptr<HostArena> landing_arena_;
  std::optional<Pinned> pinned_landings_;
  std::list<Landing> landings_;  // in the order in which they were taken last
  Event collected_;
  std::vector<int64_t> used_;
  int64_t num_reductions_ = 0;
  int64_t reduced_bytes_ = 0;
  // It goes first: it may still add.
  std::unique_ptr<HostStream> worker_;  // of a device with its own memory
  HostStream& sums_;  // where shards are added: the stream, or the worker
};

}  // namespace zero
