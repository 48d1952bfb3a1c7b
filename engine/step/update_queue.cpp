#include "engine/step/update_queue.h"

#include "engine/activity.h"
#include "engine/device/delays.h"
#include "offload/cpu_adam.h"

namespace zero {

UpdateQueue::UpdateQueue(const UnitPlan& plan, const Options& options, int rank,
                         ShardStore& shards, Device& device, ThreadPool& threads)
    : plan_(plan),
      adam_(options.adam),
      overlaps_(options.overlap_updates),
      rank_(rank),
      shards_(shards),
      threads_(threads),
      stream_(device.make_stream("updates")) {
  for (size_t u = 0; u < plan.units.size(); ++u) updated_.push_back(device.make_event());
}

std::vector<const Event*> UpdateQueue::all_updated() const {
  std::vector<const Event*> events;
  for (const auto& event : updated_) events.push_back(event.get());
  return events;
}

void UpdateQueue::begin(int64_t step, double lr, float grad_factor) {
  HostStream& stream = as_host_stream(*stream_);
  stream.enqueue([] { delay_point("adam"); });
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    stream.enqueue([=, this] { update(static_cast<int>(u), step, lr, grad_factor); });
    stream.record(*updated_[u]);
  }
  if (!overlaps_) finish();
}

void UpdateQueue::update(int unit, int64_t step, double lr, float grad_factor) {
  const Activity::Stretch stretch("update");
  delay_point("update");
  for (const int part : plan_.units[unit].parts) {
    if (!plan_.parts[part].is_frozen) update_part(part, step, lr, grad_factor);
  }
}

// Each parameter has its own learning rate and weight decay; padding is left alone.
void UpdateQueue::update_part(int index, int64_t step, double lr, float grad_factor) {
  const PlannedPart& part = plan_.parts[index];
  const PartShard& shard = shards_[index];
  for (const Piece& piece : pieces_of(part.layout, rank_)) {
    const ParamRule& rule = plan_.rules[part.params[piece.param]];
    const AdamHyper hyper{.lr = lr * rule.lr_scale,
                          .beta1 = adam_.beta1,
                          .beta2 = adam_.beta2,
                          .eps = adam_.eps,
                          .weight_decay = rule.weight_decay};
    AdamPiece adam_piece;
    adam_piece.grad = shard.grad + piece.shard_begin;
    adam_piece.master = shard.master + piece.shard_begin;
    adam_piece.exp_avg = shard.exp_avg + piece.shard_begin;
    adam_piece.exp_avg_sq = shard.exp_avg_sq + piece.shard_begin;
    adam_piece.copy_bf16 = shard.copy ? shard.copy + piece.shard_begin : nullptr;
    adam_piece.numel = piece.numel;
    adam_step(adam_piece, hyper, step, grad_factor, threads_);
  }
}

}  // namespace zero
