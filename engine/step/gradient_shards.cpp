#include "engine/step/gradient_shards.h"

#include <torch/torch.h>

#include <algorithm>
#include <cassert>

#include "engine/compute_type.h"
#include "engine/device/host_device.h"
#include "engine/trace.h"

namespace zero {
namespace {

// The calling thread alone: a pool without workers, for any thread.
ThreadPool& this_thread() {
  static ThreadPool pool(1);
  return pool;
}

// One rank's gradients, as the compute stream leaves them.
bool adds_on_gpu_in_place(const MemoryPlan& memory) {
  for (int u = 0; u < std::ssize(memory.homes); ++u) {
    if (memory.homes[u].state_on_gpu && memory.adds_in_place(u)) return true;
  }
  return false;
}

}  // namespace

GradientShards::GradientShards(const UnitPlan& plan, const MemoryPlan& memory,
                               const Options& options, ShardStore& shards, Device& device,
                               Collectives& comm, Stream& stream, ShardKernels* kernels,
                               ThreadPool& threads)
    : plan_(plan),
      wire_(options.reduce_dtype),
      sum_order_(options.deterministic ? SumOrder::kTree : SumOrder::kAny),
      memory_(memory),
      rounds_(options.grad_dtype == DType::kBf16),
      norm_type_(options.norm),
      num_planned_passes_(options.micro_batches_per_rank),
      shards_(shards),
      device_(device),
      comm_(comm),
      stream_(stream),
      threads_(threads),
      slots_(memory.gradient_ring.classes.size()),
      parts_(plan.parts.size(), PartState(options.norm)),
      kernels_(kernels),
      gpu_sums_(adds_on_gpu_in_place(memory) ? device.compute_stream() : stream),
      worker_(device.has_own_memory() ? device.make_worker("gradients") : nullptr),
      sums_(worker_ ? *worker_ : as_host_stream(stream)) {
  for (size_t c = 0; c < slots_.size(); ++c) {
    const SlotPlan::Class& of = memory.gradient_ring.classes[c];
    const int64_t bytes = of.slot_bytes;
    for (int i = 0; i < of.num_slots; ++i) {
      Slot& slot = slots_[c].emplace_back();
      slot.memory = static_cast<std::byte*>(device_.allocate("gradient ring", bytes));
      slot.bytes = bytes;
    }
  }
  if (memory.landing_bytes > 0) make_landings(memory.landing_bytes);
  make_accumulation();
}

void GradientShards::make_accumulation() {
  if (memory_.accumulation_bytes > 0)
    accumulation_ =
        std::make_unique<HostArena>("accumulation", memory_.accumulation_bytes);
  if (memory_.gpu_accumulation_bytes > 0)
    gpu_accumulation_ = std::make_unique<DeviceArena>(device_, "accumulation",
                                                      memory_.gpu_accumulation_bytes);
  if (!accumulation_ && !gpu_accumulation_) return;
  const auto take = [&](bool on_gpu, const std::string& name, int64_t numel) {
    if (!on_gpu) return accumulation_->allocate_array<float>(name, numel);
    return reinterpret_cast<float*>(gpu_accumulation_->allocate(numel * 4));
  };
  for (const bool on_gpu : {false, true}) {
    if (on_gpu ? gpu_accumulation_ != nullptr : accumulation_ != nullptr) {
      scratch_[on_gpu] =
          take(on_gpu, "scratch", largest_gradient_shard(plan_, memory_.homes, on_gpu));
    }
  }
  for (int p = 0; p < std::ssize(parts_); ++p) {
    const PlannedPart& part = plan_.parts[p];
    for (int level = 0; level < memory_.num_counter_levels && !part.is_frozen; ++level) {
      parts_[p].levels.push_back(take(is_on_gpu(p),
                                      part.tag + " level " + std::to_string(level),
                                      part.layout.shard_numel));
    }
  }
}

void GradientShards::make_landings(int64_t bytes) {
  landing_arena_ = std::make_unique<HostArena>("gradient landing", kNumLandings * bytes);
  for (int i = 0; i < kNumLandings; ++i)
    landings_.emplace_back().memory = landing_arena_->allocate("landing", bytes);
  pinned_landings_.emplace(device_, landing_arena_->data(),
                           landing_arena_->capacity_bytes());
}

GradientShards::~GradientShards() {
  worker_.reset();  // it may still add
  for (SlotClass& slots : slots_) {
    for (Slot& slot : slots) device_.free(slot.memory);
  }
}

namespace {

// Moves the gradient out of the parameter; undefined if it has none.
at::Tensor take_grad(const at::Tensor& param) {
  at::Tensor grad = param.grad();
  param.mutable_grad().reset();
  return grad.defined() && grad.is_sparse() ? grad.to_dense() : grad;
}

}  // namespace

void GradientShards::collect(int part, const std::vector<at::Tensor>& params) {
  if (plan_.parts[part].is_frozen) return;
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor>& held = parts_[part].held;
  held.resize(params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    at::Tensor grad = take_grad(params[i]);
    if (!grad.defined()) continue;
    held[i] = held[i].defined() ? held[i].to(at::kFloat).add_(grad) : std::move(grad);
  }
}

void GradientShards::reduce(int part) {
  if (plan_.parts[part].is_frozen || plan_.parts[part].layout.numel == 0) return;
  PartState& state = parts_[part];
  ++num_reductions_;
  reduced_bytes_ +=
      (comm_.size() - 1) * plan_.parts[part].layout.shard_numel * size_of(wire_);
  if (!memory_.adds_in_place(plan_.parts[part].unit)) {
    Slot& slot = next_slot(part);
    fill(slot.memory, part);
    push_pass(part, slot);
  } else {
    add_in_place(part);
  }
  ++state.num_passes;
}

// What goes into the part's sum, from its element `offset` on.
Addition GradientShards::into_sum(size_t part, int64_t offset) const {
  const PartShard& shard = shards_[part];
  Addition addition;
  if (shard.grad) addition.sum = shard.grad + offset;
  if (shard.grad_bf16) addition.sum_bf16 = shard.grad_bf16 + offset;
  return addition;
}

// After this addition the sum is the step's gradient.
void GradientShards::finish_in(Addition& addition, PartState& state) const {
  addition.rounds = rounds_;
  addition.norm = &state.norm;
}

// One rank: straight into the sum.
void GradientShards::add_in_place(int part) {
  const torch::NoGradGuard no_grad;
  const Trace::Span span("sum", plan_.parts[part].tag);
  PartState& state = parts_[part];
  const FlatLayout& layout = plan_.parts[part].layout;
  state.held.resize(layout.params.size());
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
    const int64_t numel = layout.params[i].numel();
    if (is_on_gpu(part))
      kernels_->add_up(addition, numel, gpu_sums_);
    else
      add_up(addition, 0, numel, threads_);
  }
  state.held.clear();
}

int64_t GradientShards::host_bytes() const {
  return (accumulation_ ? accumulation_->capacity_bytes() : 0) +
         (landing_arena_ ? landing_arena_->capacity_bytes() : 0);
}

GradientNorm GradientShards::finish() {
  wait();
  GradientNorm norm(norm_type_);
  // All have had as many passes: what a GPU has added up so far is of no use, either.
  std::vector<int> open;
  for (int p = 0; p < std::ssize(parts_); ++p) {
    if (needs_another_pass(p)) open.push_back(p);
  }
  if (kernels_ && !open.empty()) kernels_->take_norm(gpu_sums_);
  for (const int part : open) finish_part(part);
  if (!open.empty()) wait();
  for (const PartState& state : parts_) norm.merge(state.norm);
  if (kernels_) norm.merge(kernels_->take_norm(gpu_sums_));
  forget();
  return norm;
}

// Where there were not as many passes as planned, the sum is read once more.
bool GradientShards::needs_another_pass(int part) const {
  const PlannedPart& planned = plan_.parts[part];
  return !planned.is_frozen && planned.layout.numel > 0 &&
         parts_[part].num_passes != num_planned_passes_;
}

void GradientShards::finish_part(int p) {
  PartState& state = parts_[p];
  state.norm = GradientNorm(norm_type_);
  if (!state.levels.empty()) return fold_levels(p, state.num_passes);
  Addition addition = into_sum(p);
  if (state.num_passes > 0) addition.left = addition.sum;
  finish_in(addition, state);
  const int64_t numel = plan_.parts[p].layout.shard_numel;
  if (is_on_gpu(p))
    kernels_->add_up(addition, numel, gpu_sums_);
  else
    add_up(addition, 0, numel, threads_);
}

void GradientShards::wait() {
  stream_.synchronize();
  sums_.synchronize();
  if (kernels_) gpu_sums_.synchronize();
}

void GradientShards::discard() {
  wait();
  if (kernels_) kernels_->take_norm(gpu_sums_);
  forget();
}

void GradientShards::forget() {
  for (PartState& state : parts_) {
    state.num_passes = 0;
    state.held.clear();
    state.norm = GradientNorm(norm_type_);
  }
}

// The slot that was taken first; its reduction may still read it.
GradientShards::Slot& GradientShards::next_slot(int part) {
  SlotClass& slots = slots_[memory_.gradient_ring.class_of[part]];
  slots.splice(slots.end(), slots, slots.begin());
  const StreamClock::Span span(device_.clock(), device_.compute_stream(), Work::kWaiting,
                               "wait for", "room for gradients");
  device_.compute_stream().wait(slots.back().idle);
  return slots.back();
}

// Lay what was collected out as the wire wants it.
void GradientShards::fill(std::byte* memory, int part) {
  const torch::NoGradGuard no_grad;
  const Trace::Span span("fill", plan_.parts[part].tag);
  const FlatLayout& layout = plan_.parts[part].layout;
  std::vector<at::Tensor>& held = parts_[part].held;
  held.resize(layout.params.size());
  clear_padding(memory, layout);
  for (size_t i = 0; i < held.size(); ++i) {
    at::Tensor wire = param_in(memory, layout, i);
    held[i].defined() ? wire.copy_(held[i]) : wire.zero_();
  }
  held.clear();
}

at::Tensor GradientShards::param_in(std::byte* full, const FlatLayout& layout,
                                    size_t param) const {
  const c10::Device device = tensor_device(device_.cuda_index());
  return at::for_blob(full + layout.offsets[param] * size_of(wire_),
                      layout.params[param].shape)
      .options(at::device(device).dtype(scalar_type(wire_)))
      .target_device(device)
      .make_tensor();
}

void GradientShards::clear_padding(std::byte* full, const FlatLayout& layout) const {
  for (size_t i = 0; i < layout.params.size(); ++i) {
    const int64_t begin = layout.offsets[i] + layout.params[i].numel();
    const int64_t end =
        i + 1 < layout.params.size() ? layout.offsets[i + 1] : layout.numel;
    device_.compute_stream().set_bytes(full + begin * size_of(wire_), 0,
                                       (end - begin) * size_of(wire_));
  }
}

void GradientShards::push_pass(int part, Slot& slot) {
  PartState& state = parts_[part];
  const PlannedPart& planned = plan_.parts[part];
  const int64_t numel = planned.layout.shard_numel;
  const bool counts = !state.levels.empty();
  assert(!counts || (state.num_passes >> state.levels.size()) == 0);
  Addition addition = into_sum(part);
  float* const scratch = scratch_[is_on_gpu(part)];
  float* target = state.num_passes % 2 == 0 && counts ? state.levels[0] : scratch;
  if (state.num_passes == 0 && !counts && addition.sum) target = addition.sum;
  if (completes(state)) finish_in(addition, state);

  device_.compute_stream().record(collected_);
  stream_.wait(collected_);
  const StreamClock::Span span(device_.clock(), stream_, Work::kGradients, "reduce",
                               planned.tag);
  if (state.num_passes > 0 && !counts) addition.left = addition.sum;
  if (is_on_gpu(part)) {
    sum_on_gpu(part, slot, target, counts ? Addition{.sum = target} : addition);
  } else if (worker_) {
    land(part, slot, counts ? Addition{.sum = target} : addition);
  } else {
    SummedPiece add_piece;  // where more is to be done than to sum over ranks
    if (!counts && (target == scratch || completes(state))) {
      addition.right = target;
      add_piece = [=, &planned](int64_t begin, int64_t end) {
        const Trace::Span span("sum", planned.tag);
        add_up(addition, begin, end, this_thread());
      };
    }
    comm_.reduce_scatter(slot.memory, target, numel, wire_, sum_order_, planned.tag,
                         stream_, add_piece);
  }
  device_.poison(slot.memory, slot.bytes, stream_);
  stream_.record(slot.idle);
  if (!counts) return;
  if (target == scratch) {
    size_t level = 0;
    for (; state.num_passes >> level & 1; ++level)
      queue_sum(part, {.left = state.levels[level], .right = scratch, .sum = scratch});
    sums_of(part).copy(state.levels[level], scratch, numel * 4);
  }
  if (completes(state)) fold_levels(part, state.num_passes + 1);
}

// What ranks have summed, or one rank's gradient as it lies there, by kernels.
void GradientShards::sum_on_gpu(int part, const Slot& slot, float* target,
                                Addition addition) {
  const PlannedPart& planned = plan_.parts[part];
  if (comm_.size() > 1) {
    comm_.reduce_scatter(slot.memory, target, planned.layout.shard_numel, wire_,
                         sum_order_, planned.tag, stream_);
    const bool is_done = target == addition.sum && !addition.left && !addition.norm;
    if (is_done) return;
    addition.right = target;
  } else {
    point_to(addition, slot.memory);
  }
  queue_sum(part, addition);
}

// As it is on the wire.
void GradientShards::point_to(Addition& addition, const void* gradient) const {
  if (wire_ == DType::kFp32)
    addition.right = static_cast<const float*>(gradient);
  else
    addition.right_bf16 = static_cast<const uint16_t*>(gradient);
}

// A device's gradient comes over into a landing, and is added from there by the worker:
// while the one is added the next comes over.
void GradientShards::land(int part, const Slot& slot, Addition addition) {
  landings_.splice(landings_.end(), landings_, landings_.begin());
  Landing& landing = landings_.back();
  const PlannedPart& planned = plan_.parts[part];
  const int64_t numel = planned.layout.shard_numel;
  auto* const landed = reinterpret_cast<float*>(landing.memory);
  stream_.wait(landing.added);
  if (comm_.size() > 1) {
    addition.right = landed;
    comm_.reduce_scatter(slot.memory, landed, numel, wire_, sum_order_, planned.tag,
                         stream_);
  } else {
    point_to(addition, landed);
    stream_.copy(landed, slot.memory, numel * size_of(wire_));
  }
  stream_.record(landing.arrived);
  sums_.wait(landing.arrived);
  queue_sum(part, addition);
  sums_.record(landing.added);
}

// On a thread of its own: the training thread needs its cores. Or by the GPU.
void GradientShards::queue_sum(int part, const Addition& addition) {
  const PlannedPart& planned = plan_.parts[part];
  if (is_on_gpu(part))
    return kernels_->add_up(addition, planned.layout.shard_numel, gpu_sums_);
  sums_.enqueue([=, &planned] {
    const Trace::Span span("sum", planned.tag);
    add_up(addition, 0, planned.layout.shard_numel, this_thread());
  });
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
