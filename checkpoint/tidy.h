#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/open_run.h"

namespace zero::checkpoint {

// Finish or undo what a killed save or purge has left in a run: a step that was about to
// be replaced gets its name back, temporary files and folders go. Whoever takes the run's
// lock does this; no save may be under way. Nothing is touched but names that
// temporary_name() gives.
void tidy(const OpenRun& run);

// Give a damaged step a name that no reader takes for a checkpoint,
// "step_000000000100.damaged"; returns that name. Nothing of it is removed.
std::string set_aside(const OpenRun& run, int64_t step);

}  // namespace zero::checkpoint
