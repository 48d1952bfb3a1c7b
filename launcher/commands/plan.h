#pragma once
#include "launcher/model.h"
#include "launcher/settings/command_line.h"

namespace zero::launcher {

// `zero_launch plan`: will this configuration fit, and what would? kDone when it does,
// else kEnvironment.
int plan(const CommandLine& line, const ModelFamilies& models);

}  // namespace zero::launcher
