#pragma once
#include "engine/options.h"
#include "engine/plan/unit_plan.h"
#include "engine/shard_store.h"
#include "offload/thread_pool.h"

namespace zero {

// AdamW on one part's shard: masters, moments and, in bf16, the copy that is gathered
// next.
//
// `step` counts from 1; `grad_factor` is what stored gradient sums are multiplied with
// (divisor and clipping). Each parameter has its own learning rate and weight decay
// (ParamRule); padding is left alone.
void update_part(const UnitPlan& plan, const PlannedPart& part, int rank,
                 PartShard& shard, const AdamOptions& adam, double lr, int64_t step,
                 float grad_factor, ThreadPool& threads);

}  // namespace zero
