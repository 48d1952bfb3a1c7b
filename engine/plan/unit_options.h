#pragma once
#include <vector>

#include "engine/plan/unit_plan.h"

namespace zero {

// Tell the planned units what holds for each: see UnitOption, whose errors are thrown as
// Error(kUsage).
void add_unit_options(UnitPlan& plan, const std::vector<UnitDescription>& units,
                      const Options& options);

}  // namespace zero
