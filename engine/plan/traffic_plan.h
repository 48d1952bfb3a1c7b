#pragma once
#include "engine/plan/memory_plan.h"
#include "zero/reports.h"

namespace zero {

// How often a step gathers the weights of each PlannedUnit:
// Options::micro_batches_per_rank forwards and backwards of all units, from the first to
// the last and back.
//
// With G units in a class of slots, S slots in it and P passes the first forward gathers
// all G, a backward finds the last S still there, and a later forward the first S. The
// root is gathered once.
std::vector<int64_t> gathers_of_step(const UnitPlan& plan, const MemoryPlan& memory,
                                     const Options& options);

// What one rank moves in such a step. Exact for a model whose units hold no other units,
// are each called once in a forward and, with Accumulate::kUnit, for more rows than a
// micro-batch; but an engine's first step looks at weights on a GPU besides, and one
// behind an evaluation finds some of them still gathered.
Traffic make_traffic_plan(const UnitPlan& plan, const MemoryPlan& memory,
                          const Options& options, UnitMemory where = UnitMemory::kHost,
                          int ranks_of_host = 0);

}  // namespace zero
