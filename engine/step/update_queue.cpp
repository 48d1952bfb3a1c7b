#include "engine/step/update_queue.h"

#include "engine/device/host_device.h"
#include "engine/watch/activity.h"

namespace zero {

UpdateQueue::UpdateQueue(const UnitPlan& plan, const MemoryPlan& memory,
                         const Options& options, int rank, ShardStore& shards,
                         Device& device, ShardKernels* kernels, ThreadPool& threads)
    : plan_(plan),
      homes_(memory.homes),
      optimizer_(options.optimizer),
      overlaps_(options.overlap_updates),
      rank_(rank),
      shards_(shards),
      device_(device),
      kernels_(kernels),
      threads_(threads),
      clock_(device.clock()),
      updated_(plan.units.size()),
      gpu_stream_(memory.has_state_on_gpu() || memory.has_weights_on_gpu()
                      ? device.make_stream("device updates")
                      : nullptr),
      stream_(device.make_worker("updates")) {}

std::vector<const Event*> UpdateQueue::all_updated() const {
  std::vector<const Event*> events;
  for (const Event& event : updated_) events.push_back(&event);
  return events;
}

void UpdateQueue::touch() {
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    if (!homes_[u].state_on_gpu)
      zero::touch(updates_of(static_cast<int>(u), 1, 0, 1), threads_);
  }
}

void UpdateQueue::begin(int64_t step, double lr, float grad_factor) {
  stream_->enqueue([] { delay_point("adam"); });
  for (size_t u = 0; u < plan_.units.size(); ++u)
    queue(static_cast<int>(u), step, lr, grad_factor);
  if (gpu_stream_) gpu_stream_->record(on_gpu_);
  if (!overlaps_) finish();
}

void UpdateQueue::queue(int unit, int64_t step, double lr, float grad_factor) {
  const std::string& fqn = plan_.units[unit].fqn;
  if (homes_[unit].state_on_gpu) {
    const StreamClock::Span span(clock_, *gpu_stream_, Work::kOptimizer, "update", fqn);
    kernels_->update(updates_of(unit, step, lr, grad_factor), *gpu_stream_);
    gpu_stream_->record(updated_[unit]);
    return;
  }
  const bool is_copied = homes_[unit].weights_on_gpu;
  if (is_copied) stream_->wait(updated_[unit]);  // the copy before has been read
  {
    const StreamClock::Span span(clock_, *stream_, Work::kOptimizer, "update", fqn);
    stream_->enqueue([=, this] { update(unit, step, lr, grad_factor); });
  }
  if (is_copied) return bring_weights(unit);
  stream_->record(updated_[unit]);
}

// Behind their update, to where the GPU keeps them.
void UpdateQueue::bring_weights(int unit) {
  stream_->record(on_host_);
  gpu_stream_->wait(on_host_);
  const StreamClock::Span span(clock_, *gpu_stream_, Work::kWeights, "bring",
                               plan_.units[unit].fqn);
  for (const int p : plan_.units[unit].parts) {
    const PlannedPart& part = plan_.parts[p];
    const PartShard& shard = shards_[p];
    if (!part.is_frozen)
      gpu_stream_->copy(shard.weights_on_gpu, shard.own_weights(),
                        part.layout.shard_numel * size_of(part.dtype));
  }
  gpu_stream_->record(updated_[unit]);
}

void UpdateQueue::finish() {
  stream_->synchronize();
  if (gpu_stream_) gpu_stream_->synchronize();
}

void UpdateQueue::finish_before_compute() {
  stream_->synchronize();
  device_.compute_stream().wait(on_gpu_);
}

void UpdateQueue::update(int unit, int64_t step, double lr, float grad_factor) {
  const std::string& fqn = plan_.units[unit].fqn;
  const Activity::Stretch stretch("update " + (fqn.empty() ? "(root)" : fqn));
  delay_point("update");
  zero::update(updates_of(unit, step, lr, grad_factor), threads_);
}

std::vector<Update> UpdateQueue::updates_of(int unit, int64_t step, double lr,
                                            float grad_factor) const {
  std::vector<Update> updates;
  for (const int part : plan_.units[unit].parts) {
    if (!plan_.parts[part].is_frozen) add_part(part, step, lr, grad_factor, updates);
  }
  return updates;
}

// Each parameter has its own learning rate and weight decay; padding is left alone.
void UpdateQueue::add_part(int index, int64_t step, double lr, float grad_factor,
                           std::vector<Update>& updates) const {
  const PlannedPart& part = plan_.parts[index];
  const PartShard& shard = shards_[index];
  const bool is_fp16 = part.dtype == DType::kFp16;
  const UpdatePiece whole{.grad = shard.grad,
                          .grad_bf16 = shard.grad_bf16,
                          .master = shard.master,
                          .master_low = shard.master_low,
                          .state = {shard.state[0], shard.state[1]},
                          .state_bf16 = {shard.state_bf16[0], shard.state_bf16[1]},
                          .copy_bf16 = is_fp16 ? nullptr : shard.copy,
                          .copy_fp16 = is_fp16 ? shard.copy : nullptr,
                          .numel = part.layout.shard_numel};
  for (const ParamPiece& piece : pieces_of(part.layout, rank_)) {
    const ParamRule& rule = plan_.rules[part.params[piece.param]];
    OptimizerOptions optimizer = optimizer_;
    optimizer.weight_decay = rule.weight_decay;
    updates.push_back({part_of(whole, piece.shard_begin, piece.shard_begin + piece.numel),
                       make_rule(optimizer, lr * rule.lr_scale, step, grad_factor)});
  }
}

}  // namespace zero
