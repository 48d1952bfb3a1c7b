#pragma once
#include <vector>

#include "engine/unit/model_scan.h"
#include "zero/options.h"
#include "zero/reports.h"

namespace zero {

// Take the parameters that options leave whole out of the model's, behind its buffers.
// Throws Error(kUsage) for a pattern that matches nothing which earlier ones left, and
// for a tied parameter of which only some names match, or names match differently.
void leave_out(ScannedModel& model, const std::vector<Ignored>& ignored);

// What each rank holds for them: values, and gradients of those that are trained.
int64_t ignored_bytes(const ScannedModel& model, const Options& options);
// The same as an entry of the plan.
void add_ignored(std::vector<MemoryEntry>& entries, const ScannedModel& model,
                 const Options& options, bool has_own_memory);

}  // namespace zero
