#pragma once
#include "engine/unit/model_scan.h"
#include "zero/options.h"
#include "zero/ranks.h"

namespace zero {

// Throw Error(kDiverged) on every rank, naming options and ranks, unless all ranks were
// given the same options and the same model. What may differ: threads, traces, chaos.
// Collective.
void require_same_options(const Options& options, const ScannedModel& model,
                          Ranks& ranks);

// The same for what followed from them: the plan, and buffers as they are now, before the
// first step. Collective.
void require_same_start(const ScannedModel& model, const UnitPlan& plan, Ranks& ranks);

}  // namespace zero
