#pragma once
#include "launcher/model.h"
#include "launcher/settings/command_line.h"

namespace zero::launcher {

// The verb `generate`: a prompt, continued by a checkpoint's model. Returns the exit
// code.
int generate_text(const CommandLine& line, const ModelFamilies& models);

}  // namespace zero::launcher
