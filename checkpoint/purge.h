#pragma once

#include <string>

#include "checkpoint/io.h"

namespace zero::checkpoint {

// Keep the newest `keep` complete checkpoints of a run and remove what is older, then
// remove what failed saves have left. Returns the number of checkpoints removed.
//
// Damaged ones do not count as kept; those newer than the oldest kept one stay, to be
// looked at. A checkpoint loses its name before its first file goes, so half of one is
// never taken for one. No save may be under way in the run; the holder of its lock knows.
int purge(const std::string& run, int keep, Io& io = system_io());

}  // namespace zero::checkpoint
