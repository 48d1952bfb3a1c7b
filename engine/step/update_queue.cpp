#include "engine/step/update_queue.h"

#include "engine/activity.h"
#include "engine/device/delays.h"

namespace zero {

UpdateQueue::UpdateQueue(const UnitPlan& plan, const Options& options, int rank,
                         ShardStore& shards, Device& device, ThreadPool& threads)
    : plan_(plan),
      optimizer_(options.optimizer),
      overlaps_(options.overlap_updates),
      rank_(rank),
      shards_(shards),
      threads_(threads),
      updated_(plan.units.size()),
      stream_(device.make_worker("updates")) {}

std::vector<const Event*> UpdateQueue::all_updated() const {
  std::vector<const Event*> events;
  for (const Event& event : updated_) events.push_back(&event);
  return events;
}

void UpdateQueue::touch() {
  for (size_t u = 0; u < plan_.units.size(); ++u)
    zero::touch(updates_of(static_cast<int>(u), 1, 0, 1), threads_);
}

void UpdateQueue::begin(int64_t step, double lr, float grad_factor) {
  stream_->enqueue([] { delay_point("adam"); });
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    stream_->enqueue([=, this] { update(static_cast<int>(u), step, lr, grad_factor); });
    stream_->record(updated_[u]);
  }
  if (!overlaps_) finish();
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
  for (const Piece& piece : pieces_of(part.layout, rank_)) {
    const ParamRule& rule = plan_.rules[part.params[piece.param]];
    OptimizerOptions optimizer = optimizer_;
    optimizer.weight_decay = rule.weight_decay;
    updates.push_back({part_of(whole, piece.shard_begin, piece.shard_begin + piece.numel),
                       make_rule(optimizer, lr * rule.lr_scale, step, grad_factor)});
  }
}

}  // namespace zero
