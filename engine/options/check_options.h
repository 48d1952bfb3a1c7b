#pragma once

#include "engine/comm/agreement.h"
#include "engine/plan/memory_plan.h"
#include "zero/options.h"
#include "zero/ranks.h"

namespace zero {

struct ScannedModel;
struct UnitPlan;

// Throw Error(kUsage) that names the option and the cure, unless every value is one that
// an engine on `world_size` ranks can work with that compute there.
void check(const Options& options, int world_size, UnitMemory where);

// Options::adam_threads, checked alone: an engine needs its threads before its ranks have
// compared their options.
int checked_threads(const Options& options);

// Every option as a line of its name and value; of a function, whether there is one.
// Those that all ranks must be given alike,
Lines shared_lines(const Options& options);
// and those that each may have of its own.
Lines own_lines(const Options& options);

// Throw Error(kDiverged) on every rank, naming options and ranks, unless all ranks were
// given the same options and the same model. What may differ: threads, traces, chaos.
// Collective.
void require_same_options(const Options& options, const ScannedModel& model,
                          Ranks& ranks);

// The same for what followed from them: the plan, and buffers as they are now, before the
// first step. Collective.
void require_same_start(const ScannedModel& model, const UnitPlan& plan, Ranks& ranks);

}  // namespace zero
