#pragma once
#include <string>

#include "launcher/data/batches.h"
#include "launcher/model.h"
#include "launcher/settings/settings.h"
#include "zero/options.h"

// What follows from settings and a model's shape: the engine's options.
namespace zero::launcher {

// What settings tell the engine, whatever the model and the ranks.
Options told_options(const Settings& settings);

// What the engine is told by these settings, for a model of that family and shape.
Options engine_options(const Settings& settings, const BatchPlan& batch,
                       const ModelShape& shape, const ModelFamily& family);

}  // namespace zero::launcher
