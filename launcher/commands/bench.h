#pragma once
#include "launcher/model.h"
#include "launcher/settings/command_line.h"

namespace zero::launcher {

// `zero_launch bench KIND`: time one thing beside its limit; print a table, or with
// --json an array of rows. adam and checkpoint are about one process: of several ranks
// the first measures, the others leave. Returns the process's exit code.
int bench(const CommandLine& line, const ModelFamilies& models);

}  // namespace zero::launcher
