#pragma once
#include <string>

#include "engine/comm/agreement.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

// A line for each setting that ranks must be given alike: all but those that a host may
// have of its own, or that rank 0 decides. Of files and folders, which may lie elsewhere
// on each host, only whether they are given: contents of data are compared later.
Lines lines_of_settings(const Settings& settings);

// Throws Error(kDiverged) on every rank where they are not the same. Collective.
void require_same_settings(const Lines& lines, Ranks& ranks);

}  // namespace zero::launcher
