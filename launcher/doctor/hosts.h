#pragma once
#include <string>
#include <vector>

#include "launcher/doctor/finding.h"

namespace zero::launcher {

// One finding a host: its name resolves, ssh (or what OMPI_MCA_plm_rsh_agent names)
// reaches it without a prompt, and this program is there. Tries all of them at once,
// which takes 15 s at most. Throws Error(kUsage) for a file that names none, or that
// cannot be read.
Findings look_at_hosts(const std::string& path,
                       const std::vector<std::string>& environment);

// Before mpirun starts ranks on them: throws Error(kEnvironment) with the first thing
// that would be in its way, its own version among them.
void require_hosts(const std::string& path, const std::vector<std::string>& environment);

// What became of `agent host test -x program`.
Finding judge_reach(const std::string& host, const std::string& program,
                    const std::string& agent, const ChildOutcome& outcome);

}  // namespace zero::launcher
