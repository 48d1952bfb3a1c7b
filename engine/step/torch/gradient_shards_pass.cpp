// How one pass of a part gets into its sum, and a sum that leaves a GPU to the host.
#include <torch/torch.h>

#include <cassert>
#include <cstring>

#include "base/dtype.h"
#include "engine/step/torch/gradient_shards.h"
#include "engine/watch/trace.h"

namespace zero {
namespace {

// What ranks have summed may land right there: nothing was in the sum before.
bool lands_in_sum(const Addition& addition) { return addition.sum && !addition.left; }
// And nothing is left to do then.
bool is_done_there(const Addition& addition) {
  return lands_in_sum(addition) && !addition.norm;
}

// Backwards, in place: each value takes the room of two.
void widen(void* memory, int64_t numel) {
  auto* const bytes = static_cast<std::byte*>(memory);
  for (int64_t i = numel; i-- > 0;) {
    uint16_t narrow = 0;
    std::memcpy(&narrow, bytes + i * 2, sizeof narrow);
    const float wide = bf16_to_float(narrow);
    std::memcpy(bytes + i * 4, &wide, sizeof wide);
  }
}

}  // namespace

void GradientShards::push_pass(int part, GradientRing::Slot& slot) {
  PartState& state = parts_[part];
  const Reduction reduction = adds_behind_compute() ? nullptr : hand_over(part);
  Stream& reader = (this->*state.land)(part, slot, of_next_pass(part));
  const bool is_brought = leaves(part) && completes(state);
  if (!is_brought) release(slot, reader);
  if (!state.levels.empty()) carry(part);
  if (is_brought) bring_sum(part, slot);
}

// What was computed comes before what is queued on the stream next, which counts as this
// part's reduction as long as the span lives.
GradientShards::Reduction GradientShards::hand_over(int part) {
  at_.device.compute_stream().record(collected_);
  stream_.wait(collected_);
  return std::make_unique<StreamClock::Span>(
      at_.device.clock(), stream_, Work::kGradients, "reduce", at_.plan.parts[part].tag);
}

void GradientShards::release(GradientRing::Slot& slot, Stream& reader) {
  at_.device.poison(slot.arena.data(), slot.bytes, reader);
  reader.record(slot.idle);
}

// Into the sum, or the counter's lowest level; its next one, while that is taken, comes
// as carry.
Addition GradientShards::of_next_pass(int part) {
  PartState& state = parts_[part];
  if (!state.levels.empty()) {
    assert((state.num_passes >> state.levels.size()) == 0);
    return {.sum = state.num_passes % 2 == 0 ? state.levels[0] : scratch_of(part)};
  }
  hold_sum(part);
  if (has_groups() && is_whole(state)) state.sum = scratch_of(part);
  Addition addition = into_sum(part);
  if (state.num_passes > 0) addition.left = addition.sum;
  if (completes(state)) finish_in(addition, part);
  return addition;
}

// What came whole, and narrow, is added to after all.
void GradientShards::hold_sum(int part) {
  PartShard& shard = at_.shards[part];
  const PartState& state = parts_[part];
  if (leaves(part)) return;
  if (state.num_passes > 0 && shard.grad_bf16 && state.kept == DType::kFp32) {
    stream_.record(arrived_);
    sums_.wait(arrived_);
    sums_.enqueue(
        [memory = shard.gradient_memory(),
         numel = at_.plan.parts[part].layout.shard_numel] { widen(memory, numel); });
  }
  shard.hold_gradient(state.kept);
}

// In memory of the host: pieces are added as ranks have summed them. A counter's carry is
// the worker's, where GPUs compute.
Stream& GradientShards::land_on_host(int part, GradientRing::Slot& slot,
                                     Addition addition) {
  float* const target = lands_in_sum(addition) ? addition.sum : scratch_of(part);
  SummedPiece add_piece;
  if (!is_done_there(addition)) {
    addition.right = target;
    add_piece = [=, this, &planned = at_.plan.parts[part]](int64_t begin, int64_t end) {
      const Trace::Span span("sum", planned.tag);
      add_up(addition, begin, end, adders());
    };
  }
  if (worker_) stream_.wait(added_);
  sum_over_ranks(part, slot, target, add_piece);
  if (worker_) {
    stream_.record(arrived_);
    sums_.wait(arrived_);
  }
  return stream_;
}

// Whole to where the update reads it, or piece by piece to be added.
Stream& GradientShards::land_from_gpu(int part, GradientRing::Slot& slot,
                                      Addition addition) {
  Values values{slot.arena.data(), slot.type};
  if (at_.comm.size() > 1) {
    sum_over_ranks(part, slot, scratch_[1]);
    values = {scratch_[1], DType::kFp32};
  }
  if (is_whole(parts_[part]) && !has_groups())
    return bring(part, values, slot, numel_of_sum(part));
  const Reduction reduction = adds_behind_compute() ? hand_over(part) : nullptr;
  const PlannedPart& planned = at_.plan.parts[part];
  landing_->add(addition, values.memory, values.type, numel_of_sum(part), planned.tag);
  return stream_;
}

// What ranks have summed, or one rank's gradient as it lies there, by kernels.
Stream& GradientShards::land_on_gpu(int part, GradientRing::Slot& slot,
                                    Addition addition) {
  if (at_.comm.size() > 1) {
    float* const target = lands_in_sum(addition) ? addition.sum : scratch_of(part);
    sum_over_ranks(part, slot, target);
    if (is_done_there(addition)) return stream_;
    addition.right = target;
  } else {
    addition.point_to(slot.arena.data(), slot.type);
  }
  queue_sum(part, addition);
  return gpu_sums_;
}

// The step's gradient, from the GPU to where the update reads it; rounded in the slot, if
// at all. Returns the stream in which that is read last.
Stream& GradientShards::bring(int part, Values values, GradientRing::Slot& slot,
                              int64_t numel) {
  if (parts_[part].kept == DType::kBf16 && values.type == DType::kFp32) {
    auto* const rounded = reinterpret_cast<uint16_t*>(slot.arena.data());
    at_.kernels->round(rounded, DType::kBf16, static_cast<const float*>(values.memory),
                       numel, gpu_sums_);
    values = {rounded, DType::kBf16};
  }
  {
    const Trace::Span span("norm", at_.plan.parts[part].tag);
    at_.kernels->add_to_norm(values.memory, values.type, numel, gpu_sums_);
  }
  const Reduction reduction = adds_behind_compute() ? hand_over(part) : nullptr;
  PartShard& shard = at_.shards[part];
  shard.hold_gradient(values.type);
  stream_.copy(shard.gradient_memory(), values.memory, numel * size_of(values.type));
  return values.memory == slot.arena.data() ? stream_ : gpu_sums_;
}

void GradientShards::bring_sum(int part, GradientRing::Slot& slot) {
  if (has_groups() && is_on_gpu(part)) return add_groups_on_gpu(part, slot);
  if (has_groups()) {
    release(slot, stream_);
    return add_groups(part);
  }
  release(slot, bring(part, {parts_[part].sum, DType::kFp32}, slot, numel_of_sum(part)));
}

// A group's sum, with those of the others, becomes the gradient of this rank's slice. In
// 16 bits it travels from behind the scratch shard.
void GradientShards::add_groups(int part) {
  const PlannedPart& planned = at_.plan.parts[part];
  PartShard& shard = at_.shards[part];
  PartState& state = parts_[part];
  Collectives& across = *at_.across_host;
  shard.hold_gradient(state.kept);
  void* full = state.sum;
  if (wire_ == DType::kBf16) {
    auto* const rounded =
        reinterpret_cast<uint16_t*>(scratch_[0] + at_.memory.scratch_numel / 3 * 2);
    queue_sum(part, {.right = state.sum, .sum_bf16 = rounded});
    full = rounded;
  }
  const int64_t numel = planned.layout.shard_numel;
  Addition addition{.sum = shard.grad, .sum_bf16 = shard.grad_bf16, .norm = &state.norm};
  float* const target = shard.grad ? shard.grad : state.sum + across.rank() * numel;
  addition.right = target;
  across.reduce_scatter(full, target, numel, wire_, order(), planned.tag, sums_,
                        [=, this, &planned](int64_t begin, int64_t end) {
                          const Trace::Span span("sum", planned.tag);
                          add_up(addition, begin, end, adders());
                        });
  reduced_bytes_.between_groups += (across.size() - 1) * numel * size_of(wire_);
  if (worker_ && !landing_) sums_.record(added_);
}

// The same on a GPU, where it travels from the slot in 16 bits.
void GradientShards::add_groups_on_gpu(int part, GradientRing::Slot& slot) {
  const PlannedPart& planned = at_.plan.parts[part];
  PartShard& shard = at_.shards[part];
  PartState& state = parts_[part];
  Collectives& across = *at_.across;
  void* full = state.sum;
  if (wire_ == DType::kBf16) {
    full = slot.arena.data();
    at_.kernels->round(static_cast<uint16_t*>(full), wire_, state.sum, numel_of_sum(part),
                       stream_);
  }
  const int64_t numel = planned.layout.shard_numel;
  float* const own = state.sum + across.rank() * numel;
  across.reduce_scatter(full, own, numel, wire_, order(), planned.tag, stream_);
  reduced_bytes_.between_groups += (across.size() - 1) * numel * size_of(wire_);
  if (!home_of(part).state_on_gpu)
    return release(slot, bring(part, {own, DType::kFp32}, slot, numel));
  shard.hold_gradient(state.kept);
  at_.kernels->add_up(
      {.right = own, .sum = shard.grad, .sum_bf16 = shard.grad_bf16, .norm = &state.norm},
      numel, stream_);
  release(slot, stream_);
}

void GradientShards::sum_over_ranks(int part, const GradientRing::Slot& slot,
                                    float* shard, const SummedPiece& then) {
  at_.comm.reduce_scatter(slot.arena.data(), shard, numel_of_sum(part), slot.type,
                          order(), at_.plan.parts[part].tag, stream_, then);
}

}  // namespace zero
