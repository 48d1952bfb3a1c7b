#pragma once
#include "launcher/model.h"
#include "launcher/settings/command_line.h"

namespace zero::launcher {

// The verb `eval`: the loss of a checkpoint's model on data. Returns the exit code.
int eval(const CommandLine& line, const ModelFamilies& models);

}  // namespace zero::launcher
