#pragma once
#include <string>
#include <vector>

namespace zero::launcher {

// Who started this process: what kill can reach.
struct Starter {
  int pid = 0;              // of this process
  int parent = 0;           // of the one that started it
  std::string parent_name;  // "mpirun", "bash", ...
  // SIGTERM does not reach the parent: it is the mpirun of --ranks.
  bool parent_is_shielded = false;
};
Starter starter_of_this_process();

// True: it is an mpirun of the user's, which waits for its ranks about a second when it
// is asked to end.
bool is_impatient(const Starter& starter);

// The command that saves and stops the run in `folder`, for people:
// "kill -USR1 1234, or touch runs/a/STOP".
std::string stop_command(const Starter& starter,
                         const std::vector<std::string>& environment,
                         const std::string& folder);

}  // namespace zero::launcher
