#include "engine/step/optimizer.h"

#include "offload/cpu_adam.h"

namespace zero {

void update_unit(const UnitPlan& plan, int unit, int rank, UnitShard& shard,
                 const AdamOptions& adam, double lr, int64_t step, float grad_factor,
                 ThreadPool& threads) {
  const PlannedUnit& planned = plan.units[unit];
  for (const Piece& piece : pieces_of(planned.trainable, rank)) {
    const ParamRule& rule = plan.rules[planned.trainable_params[piece.param]];
    const AdamHyper hyper{.lr = lr * rule.lr_scale,
                          .beta1 = adam.beta1,
                          .beta2 = adam.beta2,
                          .eps = adam.eps,
                          .weight_decay = rule.weight_decay};
    AdamPiece part;
    part.grad = shard.grad + piece.shard_begin;
    part.master = shard.master + piece.shard_begin;
    part.exp_avg = shard.exp_avg + piece.shard_begin;
    part.exp_avg_sq = shard.exp_avg_sq + piece.shard_begin;
    part.copy_bf16 = shard.copy ? shard.copy + piece.shard_begin : nullptr;
    part.numel = piece.numel;
    adam_step(part, hyper, step, grad_factor, threads);
  }
}

}  // namespace zero
