#pragma once
#include <string>
#include <vector>

#include "launcher/process/start_ranks.h"

namespace zero::launcher {

// start_ranks() on this host, without MPI: the ranks share memory that this process makes
// (engine/comm/started_ranks.h), and no port is opened.
//
// A rank that dies is named, and ends the others: no process is left.
int start_here(const RanksToStart& ranks, const std::vector<std::string>& environment);

}  // namespace zero::launcher
