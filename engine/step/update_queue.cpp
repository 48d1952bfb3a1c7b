#include "engine/step/update_queue.h"

#include "engine/device/host_device.h"
#include "engine/step/shard_kernels.h"
#include "engine/watch/activity.h"

namespace zero {

UpdateQueue::UpdateQueue(const Workplace& at)
    : at_(at),
      rank_(at.comm.rank()),
      updated_(at.plan.units.size()),
      gpu_stream_(at.memory.has_state_on_gpu() || at.memory.has_weights_on_gpu()
                      ? at.device.make_stream("device updates")
                      : nullptr),
      stream_(at.device.make_worker("updates")) {}

std::vector<const Event*> UpdateQueue::all_updated() const {
  std::vector<const Event*> events;
  for (const Event& event : updated_) events.push_back(&event);
  return events;
}

void UpdateQueue::touch() {
  const Values all{
      std::make_shared<std::vector<int64_t>>(at_.plan.rules.size(), /*number=*/1)};
  for (size_t u = 0; u < at_.plan.units.size(); ++u) {
    if (!at_.memory.homes[u].state_on_gpu)
      zero::touch(updates_of(static_cast<int>(u), all), at_.threads);
  }
}

void UpdateQueue::begin(std::vector<int64_t> numbers, double lr, float grad_factor) {
  const Values values{std::make_shared<std::vector<int64_t>>(std::move(numbers)), lr,
                      grad_factor};
  stream_->enqueue([] { delay_point("adam"); });
  for (size_t u = 0; u < at_.plan.units.size(); ++u) queue(static_cast<int>(u), values);
  if (gpu_stream_) gpu_stream_->record(on_gpu_);
  if (!at_.options.overlap_updates) finish();
}

void UpdateQueue::queue(int unit, const Values& values) {
  const std::string& fqn = at_.plan.units[unit].fqn;
  if (at_.memory.homes[unit].state_on_gpu) {
    const auto span = at_.device.timed(*gpu_stream_, Work::kOptimizer, "update", fqn);
    at_.kernels->update(updates_of(unit, values), *gpu_stream_);
    gpu_stream_->record(updated_[unit]);
    return;
  }
  const bool is_copied = at_.memory.homes[unit].weights_on_gpu;
  if (is_copied) stream_->wait(updated_[unit]);  // the copy before has been read
  {
    const auto span = at_.device.timed(*stream_, Work::kOptimizer, "update", fqn);
    stream_->enqueue([=, this] { update(unit, values); });
  }
  if (is_copied) return bring_weights(unit);
  stream_->record(updated_[unit]);
}

// Behind their update, to where the GPU keeps them.
void UpdateQueue::bring_weights(int unit) {
  stream_->record(on_host_);
  gpu_stream_->wait(on_host_);
  const std::string& fqn = at_.plan.units[unit].fqn;
  const auto span = at_.device.timed(*gpu_stream_, Work::kWeights, "bring", fqn);
  for (const int p : at_.plan.units[unit].parts) {
    const PlannedPart& part = at_.plan.parts[p];
    const PartShard& shard = at_.shards[p];
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
  at_.device.compute_stream().wait(on_gpu_);
}

void UpdateQueue::update(int unit, const Values& values) {
  const std::string& fqn = at_.plan.units[unit].fqn;
  const Activity::Stretch stretch("update " + (fqn.empty() ? "(root)" : fqn));
  delay_point("update");
  zero::update(updates_of(unit, values), at_.threads);
}

std::vector<Update> UpdateQueue::updates_of(int unit, const Values& values) const {
  std::vector<Update> updates;
  for (const int part : at_.plan.units[unit].parts) {
    if (!at_.plan.parts[part].is_frozen) add_part(part, values, updates);
  }
  return updates;
}

// Each parameter has its own learning rate and weight decay; padding is left alone.
void UpdateQueue::add_part(int index, const Values& values,
                           std::vector<Update>& updates) const {
  const PlannedPart& part = at_.plan.parts[index];
  const PartShard& shard = at_.shards[index];
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
    const int param = part.params[piece.param];
    const int64_t number = (*values.numbers)[param];
    if (number == 0) continue;
    const ParamRule& rule = at_.plan.rules[param];
    OptimizerOptions optimizer = at_.options.optimizer;
    optimizer.weight_decay = rule.weight_decay;
    updates.push_back(
        {part_of(whole, piece.shard_begin, piece.shard_begin + piece.numel),
         make_rule(optimizer, values.lr * rule.lr_scale, number, values.grad_factor)});
  }
}

}  // namespace zero
