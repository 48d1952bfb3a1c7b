#pragma once
#include "launcher/command_line.h"
#include "launcher/model.h"

namespace zero::launcher {

// The verb `train`; returns the exit code.
int train(const CommandLine& line, const ModelFamilies& models);

}  // namespace zero::launcher
