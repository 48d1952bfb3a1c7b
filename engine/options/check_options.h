#pragma once
#include "engine/plan/memory_plan.h"
#include "zero/options.h"

namespace zero {

// Throw Error(kUsage) that names the option and the cure, unless every value is one that
// an engine on `world_size` ranks can work with that compute there.
void check(const Options& options, int world_size, UnitMemory where);

// Options::adam_threads, checked alone: an engine needs its threads before its ranks have
// compared their options.
int checked_threads(const Options& options);

}  // namespace zero
