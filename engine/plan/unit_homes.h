#pragma once
#include <vector>

#include "engine/plan/memory_plan.h"

namespace zero {

// Where the shards of each planned unit lie, before anything is counted: what the options
// say of all units, and of each.
std::vector<UnitHome> make_homes(const UnitPlan& plan, const Options& options,
                                 UnitMemory where);

}  // namespace zero
