#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/open_run.h"

namespace zero::checkpoint {

// Finish or undo what a killed save or purge has left in a run: a step that was about to
// be replaced gets its name back, temporary files and folders go. Whoever takes the run's
// lock does this; no save may be under way. Nothing is touched but names that
// temporary_name() gives. Returns the names that went.
std::vector<std::string> tidy(const OpenRun& run);

// Give a damaged step a name that no reader takes for a checkpoint,
// "step_000000000100.damaged"; returns that name. Nothing of it is removed.
std::string set_aside(const OpenRun& run, int64_t step);

struct Retention {
  int keep = 1;            // whole checkpoints, counted from the newest; at least 1
  int64_t keep_every = 0;  // steps that are multiples of it stay for ever; 0: none do
  int64_t best = -1;       // a step that stays; -1: none
};

// Remove a run's older checkpoints. Returns how many went.
//
// `newest` was written just now: it counts first and stays. An older one goes only when
// `keep` newer ones are whole; damaged ones do not count. Steps behind `newest` are left
// alone. A checkpoint loses its name before its first file goes, so half of one is never
// taken for one; files in it that are not ours stay, in "step_000000000100.left".
int purge(const OpenRun& run, const Retention& retention, int64_t newest);

}  // namespace zero::checkpoint
