#include "engine/step/optimizer.h"

#include "offload/cpu_adam.h"

namespace zero {

void update_part(const UnitPlan& plan, const PlannedPart& part, int rank,
                 PartShard& shard, const AdamOptions& adam, double lr, int64_t step,
                 float grad_factor, ThreadPool& threads) {
  for (const Piece& piece : pieces_of(part.layout, rank)) {
    const ParamRule& rule = plan.rules[part.params[piece.param]];
    const AdamHyper hyper{.lr = lr * rule.lr_scale,
                          .beta1 = adam.beta1,
                          .beta2 = adam.beta2,
                          .eps = adam.eps,
                          .weight_decay = rule.weight_decay};
    AdamPiece adam_piece;
    adam_piece.grad = shard.grad + piece.shard_begin;
    adam_piece.master = shard.master + piece.shard_begin;
    adam_piece.exp_avg = shard.exp_avg + piece.shard_begin;
    adam_piece.exp_avg_sq = shard.exp_avg_sq + piece.shard_begin;
    adam_piece.copy_bf16 = shard.copy ? shard.copy + piece.shard_begin : nullptr;
    adam_piece.numel = piece.numel;
    adam_step(adam_piece, hyper, step, grad_factor, threads);
  }
}

}  // namespace zero
