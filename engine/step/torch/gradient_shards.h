#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/device/device_arena.h"
#include "engine/step/addition.h"
#include "engine/step/gradient_landing.h"
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
// ranks. Reductions run on the given stream, while the training thread goes on.
//
// A gradient leaves a GPU once where it can: if one pass makes it, or if passes are added
// up there, it goes straight to where the update reads it, as one rank's autograd made it
// or as Options::grad_dtype says. Else each pass leaves, and the host adds.
//
// Where there are several groups of ranks, all of this makes the sums of one group: of
// group_numel elements. Behind the last pass they are added up over groups, into this
// rank's slice.
//
// The pass that completes a part's sum, number Options::micro_batches_per_rank, also
// takes its norm, where the sum is; where there are fewer or more, finish() reads the
// sums once more.
class GradientShards {
 public:
  GradientShards(const Workplace& at, Stream& stream);

  // From the next step on it has no gradient, as if it was frozen; or it has one again.
  void rest(int part, bool rests);
  // Add the .grad of the part's parameters (in layout order) to this pass's gradient, and
  // clear them. Frozen parts have none: nothing happens.
  void collect(int part, const std::vector<at::Tensor>& params);
  // Queue the reduction of what was collected in this pass; nothing collected counts as
  // zeros.
  void reduce(int part);
  // Reached when all that was reduced so far is in its shard.
  std::vector<const Event*> arrival();
  // Wait for all reductions; then the gradient of every PartShard is that of the step,
  // and the result is this rank's share of its norm. Begins the next step.
  GradientNorm finish();
  // Wait for all reductions and forget what was collected and reduced in this step.
  void discard();

  // Of each ParamDescription: did it get a gradient here in this step? 0 or 1.
  const std::vector<int64_t>& used() const { return used_; }
  int64_t num_reductions() const { return num_reductions_; }
  // Of them, what this rank gave other ranks.
  MeshBytes reduced_bytes() const { return reduced_bytes_; }
  int64_t host_bytes() const;

 private:
  // Of this rank's share of a part, or of all of it.
  struct Values {
    const void* memory = nullptr;
    DType type = DType::kFp32;
  };
  // Does the addition with what ranks have summed of a pass as its right side. Returns
  // the stream in which the slot is read last.
  using Land = Stream& (GradientShards::*)(int part, GradientRing::Slot& slot,
                                           Addition addition);
  struct PartState {
    explicit PartState(NormType type) : norm(type) {}

    bool rests = false;
    int64_t num_passes = 0;        // reduced in this step
    std::vector<at::Tensor> held;  // of each parameter: this pass's gradient so far
    std::vector<float*> levels;    // of the counter: level k holds 2^k passes
    // On the GPU, of a state in the host's memory; or of a group; or else its own.
    float* sum = nullptr;
    DType kept = DType::kFp32;  // what the memory of the part's gradient is for
    GradientNorm norm;          // of the sum, once the last planned pass has entered it
    Land land = nullptr;        // where the sum is
  };

  bool has_gradient(int part) const {
    return !at_.plan.parts[part].is_frozen && !parts_[part].rests;
  }
  void make_accumulation();
  Land land_of(int part) const;
  bool is_on_gpu(int part) const { return home_of(part).sums_on_gpu; }
  const UnitHome& home_of(int part) const;
  // Is the sum made on the GPU, and read by the host's update? Or is it a group's?
  bool leaves(int part) const;
  bool has_groups() const { return at_.memory.has_groups; }
  int64_t numel_of_sum(int part) const { return at_.plan.parts[part].layout.group_numel; }
  // Does this pass make the whole gradient?
  bool is_whole(const PartState& state) const {
    return state.num_passes == 0 && completes(state);
  }
  float* scratch_of(int part) const { return scratch_[is_on_gpu(part)]; }
  Stream& sums_of(int part) { return is_on_gpu(part) ? gpu_sums_ : sums_; }
  // Does a GPU add in the stream in which it computes?
  bool adds_behind_compute() const { return &gpu_sums_ != &stream_; }
  ThreadPool& adders();
  DType type_in_slot(int part) const;
  void add_in_place(int part);
  void push_pass(int part, GradientRing::Slot& slot);
  using Reduction = std::unique_ptr<StreamClock::Span>;
  Reduction hand_over(int part);
  void release(GradientRing::Slot& slot, Stream& reader);
  Addition of_next_pass(int part);
  void hold_sum(int part);
  Stream& land_on_host(int part, GradientRing::Slot& slot, Addition addition);
  Stream& land_from_gpu(int part, GradientRing::Slot& slot, Addition addition);
  Stream& land_on_gpu(int part, GradientRing::Slot& slot, Addition addition);
  Stream& bring(int part, Values values, GradientRing::Slot& slot, int64_t numel);
  void bring_sum(int part, GradientRing::Slot& slot);
  void add_groups(int part);
  void add_groups_on_gpu(int part, GradientRing::Slot& slot);
  SumOrder order() const {
    return at_.options.deterministic ? SumOrder::kTree : SumOrder::kAny;
  }
  void sum_over_ranks(int part, const GradientRing::Slot& slot, float* shard,
                      const SummedPiece& then = {});
  void queue_sum(int part, const Addition& addition);
  void add(int part, const Addition& addition, int64_t numel);
  void carry(int part);
  Addition into_sum(int part, int64_t offset = 0) const;
  void finish_in(Addition& addition, int part);
  void fold_levels(int part, int64_t num_passes);
  void finish_part(int part);
  GradientNorm norm_on_gpu();
  void wait();
  void forget();
  bool needs_another_pass(int part) const;
  bool completes(const PartState& state) const {
    return state.num_passes + 1 == at_.options.micro_batches_per_rank;
  }

  const Workplace at_;
  const DType wire_;
  Stream& stream_;
  // Where a GPU adds: beside what it computes if ranks talk, else behind it.
  Stream& gpu_sums_;
  GradientRing ring_;
  std::vector<PartState> parts_;
  std::unique_ptr<HostArena> accumulation_;
  std::unique_ptr<DeviceArena> gpu_accumulation_;
  // One shard of the largest part, in the host's memory and on the GPU: a pass on its way
  // into the sum.
  float* scratch_[2] = {};
  Event collected_, arrived_, added_;
  Event here_, summed_;  // as arrival() says
  std::vector<int64_t> used_;
  int64_t num_reductions_ = 0;
  MeshBytes reduced_bytes_;
  std::unique_ptr<GradientLanding> landing_;  // where each pass leaves a GPU
  // It goes first: it may still add.
  std::unique_ptr<HostStream> worker_;  // of a device with its own memory
  HostStream& sums_;  // where shards are added: the stream, or the worker
};

}  // namespace zero
