#include "engine/step/torch/gradient_shards.h"

#include <torch/torch.h>

#include <algorithm>

#include "engine/device/host_device.h"
#include "engine/watch/trace.h"

namespace zero {
namespace {

// The calling thread alone: a pool without workers, for any thread.
ThreadPool& this_thread() {
  static ThreadPool pool(1);
  return pool;
}

bool is_bf16(const at::Tensor& gradient) {
  return gradient.scalar_type() == at::kBFloat16;
}

// Moves the gradient out of the parameter; undefined if it has none.
at::Tensor take_grad(const at::Tensor& param) {
  at::Tensor grad = param.grad();
  param.mutable_grad().reset();
  return grad.defined() && grad.is_sparse() ? grad.to_dense() : grad;
}

// What autograd gave may be the memory of another gradient, too, such as that of the
// unit's input.
at::Tensor sum_of(at::Tensor held, const at::Tensor& grad) {
  return held.storage().use_count() > 1 ? held + grad : held.add_(grad);
}

}  // namespace

GradientShards::GradientShards(const Workplace& at, Stream& stream)
    : at_(at),
      wire_(at.options.reduce_dtype),
      stream_(stream),
      gpu_sums_(at.kernels && at.comm.size() == 1 && !at.memory.has_groups
                    ? at.device.compute_stream()
                    : stream),
      ring_(at.plan, at.memory.gradient_ring, at.device),
      parts_(at.plan.parts.size(), PartState(at.options.norm)),
      used_(at.plan.rules.size(), 0),
      worker_(at.device.has_own_memory() ? at.device.make_worker("gradients") : nullptr),
      sums_(worker_ ? *worker_ : as_host_stream(stream)) {
  if (at.memory.landing_bytes > 0)
    landing_ = std::make_unique<GradientLanding>(at.device, stream, *worker_, at.threads,
                                                 at.memory.landing_bytes);
  make_accumulation();
  for (int p = 0; p < std::ssize(parts_); ++p) {
    parts_[p].land = land_of(p);
    parts_[p].kept = at.shards[p].grad_bf16 ? DType::kBf16 : DType::kFp32;
  }
}

GradientShards::Land GradientShards::land_of(int part) const {
  if (is_on_gpu(part)) return &GradientShards::land_on_gpu;
  return landing_ ? &GradientShards::land_from_gpu : &GradientShards::land_on_host;
}

const UnitHome& GradientShards::home_of(int part) const {
  return at_.memory.homes[at_.plan.parts[part].unit];
}

bool GradientShards::leaves(int part) const {
  if (has_groups()) return true;
  return home_of(part).sums_on_gpu && !home_of(part).state_on_gpu;
}

// The training thread needs the cores of ranks that compute on them.
ThreadPool& GradientShards::adders() { return worker_ ? at_.threads : this_thread(); }

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
  if (at_.memory.scratch_numel > 0)
    scratch_[0] = array(/*on_gpu=*/false, "scratch", at_.memory.scratch_numel);
  if (at_.memory.gpu_scratch_numel > 0)
    scratch_[1] = array(/*on_gpu=*/true, "scratch", at_.memory.gpu_scratch_numel);
  for (int p = 0; p < std::ssize(parts_); ++p) {
    const PlannedPart& part = at_.plan.parts[p];
    if (part.is_frozen) continue;
    for (int level = 0; level < at_.memory.num_counter_levels; ++level) {
      parts_[p].levels.push_back(array(
          is_on_gpu(p), part.tag + " level " + std::to_string(level), numel_of_sum(p)));
    }
    if (leaves(p) && parts_[p].levels.empty() &&
        (!has_groups() || at_.memory.has_group_sums))
      parts_[p].sum = array(is_on_gpu(p), part.tag + " sum", numel_of_sum(p));
  }
}

// Whoever asks for its gradient finds zeros.
void GradientShards::rest(int part, bool rests) {
  if (std::exchange(parts_[part].rests, rests) == rests || !rests) return;
  wait();
  at_.shards[part]
      .gradients(0, at_.plan.parts[part].layout.shard_numel)
      .set_all([](int64_t, std::span<float> values) { std::ranges::fill(values, 0); });
}

void GradientShards::collect(int part, const std::vector<at::Tensor>& params) {
  if (!has_gradient(part)) return;
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor>& held = parts_[part].held;
  held.resize(params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    at::Tensor grad = take_grad(params[i]);
    if (!grad.defined()) continue;
    used_[at_.plan.parts[part].params[i]] = 1;
    held[i] = held[i].defined() ? sum_of(held[i].to(at::kFloat), grad) : std::move(grad);
  }
}

void GradientShards::reduce(int part) {
  if (!has_gradient(part) || at_.plan.parts[part].layout.numel == 0) return;
  PartState& state = parts_[part];
  ++num_reductions_;
  reduced_bytes_.in_group += (at_.comm.size() - 1) * numel_of_sum(part) * size_of(wire_);
  state.held.resize(at_.plan.parts[part].layout.params.size());
  if (at_.memory.adds_in_place(at_.plan.parts[part].unit))
    add_in_place(part);
  else
    push_pass(part, ring_.fill(part, state.held, type_in_slot(part)));
  state.held.clear();
  ++state.num_passes;
}

// What leaves a GPU as one rank's alone goes as autograd made it, or as it will be kept;
// what is added up among ranks as the options say.
DType GradientShards::type_in_slot(int part) const {
  const PartState& state = parts_[part];
  const bool is_alone = at_.comm.size() == 1 && at_.device.has_own_memory();
  if (!is_alone || wire_ == DType::kBf16) return wire_;
  if (is_whole(state) && state.kept == DType::kBf16 && !has_groups()) return DType::kBf16;
  const bool is_as_made = at_.plan.parts[part].dtype == DType::kBf16 &&
                          std::ranges::all_of(state.held, [](const at::Tensor& gradient) {
                            return !gradient.defined() || is_bf16(gradient);
                          });
  return is_as_made ? DType::kBf16 : DType::kFp32;
}

// What goes into the part's sum, from its element `offset` on.
Addition GradientShards::into_sum(int part, int64_t offset) const {
  const PartShard& shard = at_.shards[part];
  if (leaves(part)) return {.sum = parts_[part].sum};
  Addition addition;
  if (shard.grad) addition.sum = shard.grad + offset;
  if (shard.grad_bf16) addition.sum_bf16 = shard.grad_bf16 + offset;
  return addition;
}

// After this addition the sum is the step's gradient. One that leaves is finished on its
// way.
void GradientShards::finish_in(Addition& addition, int part) {
  if (leaves(part)) return;
  addition.rounds = at_.options.grad_dtype == DType::kBf16;
  addition.norm = &parts_[part].norm;
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
      grad = (is_bf16(grad) ? grad : grad.to(at::kFloat)).contiguous();
      addition.point_to(grad.const_data_ptr(),
                        is_bf16(grad) ? DType::kBf16 : DType::kFp32);
    }
    if (completes(state)) finish_in(addition, part);
    add(part, addition, layout.params[i].numel());
  }
}

int64_t GradientShards::host_bytes() const {
  return (accumulation_ ? accumulation_->capacity_bytes() : 0) +
         (landing_ ? landing_->host_bytes() : 0);
}

std::vector<const Event*> GradientShards::arrival() {
  stream_.record(here_);
  if (worker_) sums_.record(summed_);
  return {&here_, &summed_};
}

GradientNorm GradientShards::finish() {
  GradientNorm on_gpu = norm_on_gpu();
  wait();
  GradientNorm norm(at_.options.norm);
  // All have had as many passes: what a GPU has added up so far is of no use, either.
  std::vector<int> open;
  for (int p = 0; p < std::ssize(parts_); ++p) {
    if (needs_another_pass(p)) open.push_back(p);
  }
  for (const int part : open) finish_part(part);
  if (!open.empty()) {
    on_gpu = norm_on_gpu();
    wait();
  }
  for (const PartState& state : parts_) norm.merge(state.norm);
  norm.merge(on_gpu);
  forget();
  return norm;
}

// Of what was queued there. Waits for it.
GradientNorm GradientShards::norm_on_gpu() {
  return at_.kernels ? at_.kernels->take_norm(gpu_sums_) : GradientNorm(at_.options.norm);
}

// Where there were not as many passes as planned, the sum is read once more.
bool GradientShards::needs_another_pass(int part) const {
  const PlannedPart& planned = at_.plan.parts[part];
  return has_gradient(part) && planned.layout.numel > 0 &&
         parts_[part].num_passes != at_.options.micro_batches_per_rank;
}

void GradientShards::finish_part(int p) {
  PartState& state = parts_[p];
  state.norm = GradientNorm(at_.options.norm);
  if (state.levels.empty()) {
    Addition addition = into_sum(p);
    if (state.num_passes > 0) addition.left = addition.sum;
    finish_in(addition, p);
    add(p, addition, numel_of_sum(p));
  } else {
    fold_levels(p, state.num_passes);
  }
  if (leaves(p)) bring_sum(p, ring_.next_slot(p));
}

void GradientShards::wait() {
  stream_.synchronize();
  sums_.synchronize();
}

void GradientShards::discard() {
  norm_on_gpu();
  wait();
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

// On a thread of its own, or by the GPU.
void GradientShards::queue_sum(int part, const Addition& addition) {
  const int64_t numel = numel_of_sum(part);
  if (is_on_gpu(part)) return add(part, addition, numel);
  sums_.enqueue([=, this, &planned = at_.plan.parts[part]] {
    const Trace::Span span("sum", planned.tag);
    add_up(addition, 0, numel, adders());
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
  if (level > 0) sums_of(part).copy(state.levels[level], scratch, numel_of_sum(part) * 4);
  if (completes(state)) fold_levels(part, state.num_passes + 1);
  if (worker_ && !landing_) sums_.record(added_);
}

// The counter's levels, the lowest first, become the sum; the last of them finishes it.
// One that leaves becomes the highest.
void GradientShards::fold_levels(int part, int64_t num_passes) {
  PartState& state = parts_[part];
  Addition addition = into_sum(part);
  for (size_t level = 0; level < state.levels.size(); ++level) {
    if (!(num_passes >> level & 1)) continue;
    addition.left = state.levels[level];
    if (leaves(part)) addition.sum = state.sum = state.levels[level];
    if (num_passes >> (level + 1) == 0) finish_in(addition, part);
    queue_sum(part, addition);
    addition.right = addition.sum;
  }
}

}  // namespace zero
