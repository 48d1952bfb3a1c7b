#pragma once
#include "launcher/command_line.h"
#include "launcher/model.h"

namespace zero::launcher {

// The verb `eval`: the loss of a checkpoint's model on data. Returns the exit code.
int eval(const CommandLine& line, const ModelFamilies& models);

}  // namespace zero::launcher
