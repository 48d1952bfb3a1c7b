#pragma once
#include "launcher/command_line.h"
#include "launcher/model.h"

namespace zero::launcher {

// The verb `generate`: a prompt, continued by a checkpoint's model. Returns the exit
// code.
int generate_text(const CommandLine& line, const ModelFamilies& models);

}  // namespace zero::launcher
