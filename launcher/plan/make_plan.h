#pragma once
#include "launcher/model.h"
#include "launcher/plan/run_plan.h"

namespace zero::launcher {

// Plan settings that fit together, for `model`, which has the wish's shape and may be
// deferred: nothing is allocated. RunPlan::program stays 0.
RunPlan make_plan(const Wish& wish, const ModelFamily& family, LanguageModel& model);

}  // namespace zero::launcher
