#pragma once
#include "launcher/model.h"
#include "launcher/settings/command_line.h"

namespace zero::launcher {

// `zero_launch verify`: read every byte of a checkpoint, or of all of a run's, and
// compare it with the hash that was recorded. kDone when all is sound, else kCheckpoint.
int verify(const CommandLine& line, const ModelFamilies& models);

}  // namespace zero::launcher
