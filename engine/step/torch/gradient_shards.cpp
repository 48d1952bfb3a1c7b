#include "engine/step/torch/gradient_shards.h"

#include <torch/torch.h>

#include <algorithm>
#include <cassert>

#include "engine/device/host_device.h"
#include "engine/watch/trace.h"

namespace zero {
namespace {

// The calling thread alone: a pool without workers, for any thread.
ThreadPool& this_thread() {
  static ThreadPool pool(1);
  return pool;
}

// What ranks have summed may land right there: nothing was in the sum before.
bool lands_in_sum(const Addition& addition) { return addition.sum && !addition.left; }
// And nothing is left to do then.
bool is_done_there(const Addition& addition) {
  return lands_in_sum(addition) && !addition.norm;
}

// One rank's gradients, as the compute stream leaves them.
bool adds_on_gpu_in_place(const MemoryPlan& memory) {
  for (int u = 0; u < std::ssize(memory.homes); ++u) {
    if (memory.homes[u].state_on_gpu && memory.adds_in_place(u)) return true;
  }
  return false;
}

// Moves the gradient out of the parameter; undefined if it has none.
at::Tensor take_grad(const at::Tensor& param) {
  at::Tensor grad = param.grad();
  param.mutable_grad().reset();
  return grad.defined() && grad.is_sparse() ? grad.to_dense() : grad;
}

}  // namespace

GradientShards::GradientShards(const Workplace& at, Stream& stream)
    : at_(at),
      wire_(at.options.reduce_dtype),
      stream_(stream),
      gpu_sums_(adds_on_gpu_in_place(at.memory) ? at.device.compute_stream() : stream),
      ring_(at.plan, at.memory.gradient_ring, wire_, at.device),
      parts_(at.plan.parts.size(), PartState(at.options.norm)),
      used_(at.plan.rules.size(), 0),
      worker_(at.device.has_own_memory() ? at.device.make_worker("gradients") : nullptr),
      sums_(worker_ ? *worker_ : as_host_stream(stream)) {
  if (at.memory.landing_bytes > 0) make_landings(at.memory.landing_bytes);
  make_accumulation();
  for (size_t p = 0; p < parts_.size(); ++p)
    parts_[p].land = is_on_gpu(p) ? &GradientShards::land_on_gpu
                     : worker_    ? &GradientShards::land_by_worker
                                  : &GradientShards::land_on_host;
}

void GradientShards::make_accumulation() {
  if (at_.memory.accumulation_bytes > 0)
    accumulation_ =
        std::make_unique<HostArena>("accumulation", at_.memory.accumulation_bytes);
  if (at_.memory.gpu_accumulation_bytes > 0)
    gpu_accumulation_ = std::make_unique<DeviceArena>(at_.device, "accumulation",
                                                      at_.memory.gpu_accumulation_bytes);
  if (!accumulation_ && !gpu_accumulation_) return;
  const auto array = [&](bool on_gpu, const std::string& name, int64_t numel) {
    if (!on_gpu) return accumulation_->allocate_array<float>(name, numel);
    return reinterpret_cast<float*>(gpu_accumulation_->allocate(numel * 4));
  };
  for (const bool on_gpu : {false, true}) {
    if (on_gpu ? gpu_accumulation_ != nullptr : accumulation_ != nullptr) {
      scratch_[on_gpu] = array(
          on_gpu, "scratch", largest_gradient_shard(at_.plan, at_.memory.homes, on_gpu));
    }
  }
  for (int p = 0; p < std::ssize(parts_); ++p) {
    const PlannedPart& part = at_.plan.parts[p];
    for (int level = 0; level < at_.memory.num_counter_levels && !part.is_frozen;
         ++level) {
      parts_[p].levels.push_back(array(is_on_gpu(p),
                                       part.tag + " level " + std::to_string(level),
                                       part.layout.shard_numel));
    }
  }
}

void GradientShards::make_landings(int64_t bytes) {
  landing_arena_ = std::make_unique<HostArena>("gradient landing", kNumLandings * bytes);
  for (int i = 0; i < kNumLandings; ++i)
    landings_.emplace_back().memory = landing_arena_->allocate("landing", bytes);
  pinned_landings_.emplace(at_.device, landing_arena_->data(),
                           landing_arena_->capacity_bytes());
}

void GradientShards::collect(int part, const std::vector<at::Tensor>& params) {
  if (at_.plan.parts[part].is_frozen) return;
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor>& held = parts_[part].held;
  held.resize(params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    at::Tensor grad = take_grad(params[i]);
    if (!grad.defined()) continue;
    used_[at_.plan.parts[part].params[i]] = 1;
    held[i] = held[i].defined() ? held[i].to(at::kFloat).add_(grad) : std::move(grad);
  }
}

void GradientShards::reduce(int part) {
  if (at_.plan.parts[part].is_frozen || at_.plan.parts[part].layout.numel == 0) return;
  PartState& state = parts_[part];
  ++num_reductions_;
  reduced_bytes_ +=
      (at_.comm.size() - 1) * at_.plan.parts[part].layout.shard_numel * size_of(wire_);
  state.held.resize(at_.plan.parts[part].layout.params.size());
  if (at_.memory.adds_in_place(at_.plan.parts[part].unit))
    add_in_place(part);
  else
    push_pass(part, ring_.fill(part, state.held));
  state.held.clear();
  ++state.num_passes;
}

// What goes into the part's sum, from its element `offset` on.
Addition GradientShards::into_sum(size_t part, int64_t offset) const {
  const PartShard& shard = at_.shards[part];
  Addition addition;
  if (shard.grad) addition.sum = shard.grad + offset;
  if (shard.grad_bf16) addition.sum_bf16 = shard.grad_bf16 + offset;
  return addition;
}

// After this addition the sum is the step's gradient.
void GradientShards::finish_in(Addition& addition, PartState& state) const {
  addition.rounds = at_.options.grad_dtype == DType::kBf16;
  addition.norm = &state.norm;
}

// One rank: straight into the sum.
void GradientShards::add_in_place(int part) {
  const torch::NoGradGuard no_grad;
  const Trace::Span span("sum", at_.plan.parts[part].tag);
  PartState& state = parts_[part];
  const FlatLayout& layout = at_.plan.parts[part].layout;
  for (size_t i = 0; i < state.held.size(); ++i) {
    at::Tensor& grad = state.held[i];
    Addition addition = into_sum(part, layout.offsets[i]);
    if (state.num_passes > 0) addition.left = addition.sum;
    if (grad.defined()) {
      const bool is_bf16 = grad.scalar_type() == at::kBFloat16;
      grad = (is_bf16 ? grad : grad.to(at::kFloat)).contiguous();
      if (is_bf16)
        addition.right_bf16 = static_cast<const uint16_t*>(grad.const_data_ptr());
      else
        addition.right = grad.const_data_ptr<float>();
    }
    if (completes(state)) finish_in(addition, state);
    add(part, addition, layout.params[i].numel());
  }
}

int64_t GradientShards::host_bytes() const {
  return (accumulation_ ? accumulation_->capacity_bytes() : 0) +
         (landing_arena_ ? landing_arena_->capacity_bytes() : 0);
}

GradientNorm GradientShards::finish() {
  wait();
  GradientNorm norm(at_.options.norm);
  // All have had as many passes: what a GPU has added up so far is of no use, either.
  std::vector<int> open;
  for (int p = 0; p < std::ssize(parts_); ++p) {
    if (needs_another_pass(p)) open.push_back(p);
  }
  if (at_.kernels && !open.empty()) at_.kernels->take_norm(gpu_sums_);
  for (const int part : open) finish_part(part);
  if (!open.empty()) wait();
  for (const PartState& state : parts_) norm.merge(state.norm);
  if (at_.kernels) norm.merge(at_.kernels->take_norm(gpu_sums_));
  forget();
  return norm;
}

// Where there were not as many passes as planned, the sum is read once more.
bool GradientShards::needs_another_pass(int part) const {
  const PlannedPart& planned = at_.plan.parts[part];
  return !planned.is_frozen && planned.layout.numel > 0 &&
         parts_[part].num_passes != at_.options.micro_batches_per_rank;
}

void GradientShards::finish_part(int p) {
  PartState& state = parts_[p];
  state.norm = GradientNorm(at_.options.norm);
  if (!state.levels.empty()) return fold_levels(p, state.num_passes);
  Addition addition = into_sum(p);
  if (state.num_passes > 0) addition.left = addition.sum;
  finish_in(addition, state);
  add(p, addition, at_.plan.parts[p].layout.shard_numel);
}

void GradientShards::wait() {
  stream_.synchronize();
  sums_.synchronize();
  if (at_.kernels) gpu_sums_.synchronize();
}

void GradientShards::discard() {
  wait();
  if (at_.kernels) at_.kernels->take_norm(gpu_sums_);
  forget();
}

void GradientShards::forget() {
  std::ranges::fill(used_, 0);
  for (PartState& state : parts_) {
    state.num_passes = 0;
    state.held.clear();
    state.norm = GradientNorm(at_.options.norm);
  }
}

void GradientShards::push_pass(int part, GradientRing::Slot& slot) {
  PartState& state = parts_[part];
  const PlannedPart& planned = at_.plan.parts[part];
  at_.device.compute_stream().record(collected_);
  stream_.wait(collected_);
  const auto span = at_.device.timed(stream_, Work::kGradients, "reduce", planned.tag);
  (this->*state.land)(part, slot.arena.data(), of_next_pass(part));
  at_.device.poison(slot.arena.data(), slot.bytes, stream_);
  stream_.record(slot.idle);
  if (!state.levels.empty()) carry(part);
}

// Into the sum, or the counter's lowest level; its next one, while that is taken, comes
// as carry.
Addition GradientShards::of_next_pass(int part) {
  PartState& state = parts_[part];
  if (!state.levels.empty()) {
    assert((state.num_passes >> state.levels.size()) == 0);
    return {.sum = state.num_passes % 2 == 0 ? state.levels[0] : scratch_of(part)};
  }
  Addition addition = into_sum(part);
  if (state.num_passes > 0) addition.left = addition.sum;
  if (completes(state)) finish_in(addition, state);
  return addition;
}

// In the device's own memory: pieces are added as ranks have summed them.
void GradientShards::land_on_host(int part, void* full, Addition addition) {
  float* const target = lands_in_sum(addition) ? addition.sum : scratch_of(part);
  SummedPiece add_piece;
  if (!is_done_there(addition)) {
    addition.right = target;
    add_piece = [=, &planned = at_.plan.parts[part]](int64_t begin, int64_t end) {
      const Trace::Span span("sum", planned.tag);
      add_up(addition, begin, end, this_thread());
    };
  }
  sum_over_ranks(part, full, target, add_piece);
}

// From a device with its own memory into a landing, and added from there by the worker:
// while the one is added the next comes over.
void GradientShards::land_by_worker(int part, void* full, Addition addition) {
  landings_.splice(landings_.end(), landings_, landings_.begin());
  Landing& landing = landings_.back();
  stream_.wait(landing.added);
  if (at_.comm.size() > 1) {
    auto* const landed = reinterpret_cast<float*>(landing.memory);
    sum_over_ranks(part, full, landed);
    addition.right = landed;
  } else {
    stream_.copy(landing.memory, full,
                 at_.plan.parts[part].layout.shard_numel * size_of(wire_));
    point_to(addition, landing.memory);
  }
  stream_.record(landing.arrived);
  sums_.wait(landing.arrived);
  queue_sum(part, addition);
  sums_.record(landing.added);
}

// What ranks have summed, or one rank's gradient as it lies there, by kernels.
void GradientShards::land_on_gpu(int part, void* full, Addition addition) {
  if (at_.comm.size() > 1) {
    float* const target = lands_in_sum(addition) ? addition.sum : scratch_of(part);
    sum_over_ranks(part, full, target);
    if (is_done_there(addition)) return;
    addition.right = target;
  } else {
    point_to(addition, full);
  }
  queue_sum(part, addition);
}

void GradientShards::sum_over_ranks(int part, void* full, float* shard,
                                    const SummedPiece& then) {
  const PlannedPart& planned = at_.plan.parts[part];
  const SumOrder order = at_.options.deterministic ? SumOrder::kTree : SumOrder::kAny;
  at_.comm.reduce_scatter(full, shard, planned.layout.shard_numel, wire_, order,
                          planned.tag, stream_, then);
}

// As it is on the wire.
void GradientShards::point_to(Addition& addition, const void* gradient) const {
  if (wire_ == DType::kFp32)
    addition.right = static_cast<const float*>(gradient);
  else
    addition.right_bf16 = static_cast<const uint16_t*>(gradient);
}

// On a thread of its own: the training thread needs its cores. Or by the GPU.
void GradientShards::queue_sum(int part, const Addition& addition) {
  const PlannedPart& planned = at_.plan.parts[part];
  if (is_on_gpu(part)) return add(part, addition, planned.layout.shard_numel);
  sums_.enqueue([=, &planned] {
    const Trace::Span span("sum", planned.tag);
    add_up(addition, 0, planned.layout.shard_numel, this_thread());
  });
}

// At once, where nothing is queued; a GPU in its turn.
void GradientShards::add(int part, const Addition& addition, int64_t numel) {
  if (is_on_gpu(part))
    at_.kernels->add_up(addition, numel, gpu_sums_);
  else
    add_up(addition, 0, numel, at_.threads);
}

// The counter is one pass further.
void GradientShards::carry(int part) {
  PartState& state = parts_[part];
  float* const scratch = scratch_of(part);
  size_t level = 0;
  for (; state.num_passes >> level & 1; ++level)
    queue_sum(part, {.left = state.levels[level], .right = scratch, .sum = scratch});
  if (level > 0)
    sums_of(part).copy(state.levels[level], scratch,
                       at_.plan.parts[part].layout.shard_numel * 4);
  if (completes(state)) fold_levels(part, state.num_passes + 1);
}

// The counter's levels, the lowest first, become the sum; the last of them finishes it.
void GradientShards::fold_levels(int part, int64_t num_passes) {
  PartState& state = parts_[part];
  Addition addition = into_sum(part);
  for (size_t level = 0; level < state.levels.size(); ++level) {
    if (!(num_passes >> level & 1)) continue;
    addition.left = state.levels[level];
    if (num_passes >> (level + 1) == 0) finish_in(addition, state);
    queue_sum(part, addition);
    addition.right = addition.sum;
  }
}

}  // namespace zero
