#pragma once
#include "launcher/model.h"
#include "launcher/settings/command_line.h"

namespace zero::launcher {

// The verb `train`; returns the exit code.
int train(const CommandLine& line, const ModelFamilies& models);

}  // namespace zero::launcher
