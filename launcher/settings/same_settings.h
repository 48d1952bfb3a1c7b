#pragma once
#include <set>
#include <string>

#include "engine/comm/agreement.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

// A line for each setting that ranks must be given alike: all but those that a host may
// have of its own. Of files and folders that rank 0 alone reads, or that may lie
// elsewhere on each host, only whether they are given; `compared` names more of these,
// whose contents are compared.
Lines lines_of_settings(const Settings& settings,
                        const std::set<std::string>& compared = {});

// Throws Error(kDiverged) on every rank where they are not the same. Collective.
void require_same_settings(const Lines& lines, Ranks& ranks);

}  // namespace zero::launcher
