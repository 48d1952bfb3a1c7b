#pragma once
#include "launcher/model.h"
#include "launcher/plan/run_plan.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

// Plan settings that fit together, for a model of that shape on so many ranks. `model`
// may be deferred: nothing is allocated, and RunPlan::program stays 0.
RunPlan make_plan(const Settings& settings, const ModelFamily& family,
                  const ModelShape& shape, LanguageModel& model, int num_ranks,
                  int ranks_on_node);

}  // namespace zero::launcher
