#pragma once
#include <cstdint>

#include "engine/options.h"
#include "launcher/data/batches.h"
#include "launcher/model.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

// What the engine is told by these settings. `init` are the model's own rules.
Options engine_options(const Settings& settings, const BatchPlan& batch, int64_t seq_len,
                       const InitRules& init);

}  // namespace zero::launcher
