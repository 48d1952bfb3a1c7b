#pragma once
#include <string>

#include "engine/options.h"
#include "launcher/data/batches.h"
#include "launcher/model.h"
#include "launcher/settings/settings.h"

// What follows from settings: a model's shape, the engine's options.
namespace zero::launcher {

// The family that --model names; nullptr when there is none.
const ModelFamily* find_family(const ModelFamilies& models, const std::string& name);

// The preset that --preset names, or the family's default; nullptr when there is none.
const ModelShape* find_preset(const ModelFamily& family, const std::string& name);

// The preset, with every setting that is given (not 0) in its place. `vocab` stays 0
// where neither tells it.
ModelShape chosen_shape(const ModelShape& preset, const Settings& settings);
// The same for settings whose preset is there.
ModelShape chosen_shape(const ModelFamily& family, const Settings& settings);

// What the engine is told by these settings, for a model of that family and shape.
Options engine_options(const Settings& settings, const BatchPlan& batch,
                       const ModelShape& shape, const ModelFamily& family);

}  // namespace zero::launcher
