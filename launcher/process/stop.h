#pragma once
#include <cstdint>
#include <string>
#include <vector>

// Asking a run to stop: by signals, and what to tell people to do.
namespace zero::launcher {

// Let SIGUSR1, SIGTERM, SIGINT and SIGHUP (unless it is ignored, as under nohup) ask this
// process to save and stop. A second one, half a second or more behind the first, ends it
// at once with code 130: a scheduler's duplicate of the same signal is none, nor is the
// death of the process that has started this rank. Only a program does this, never a
// library.
void catch_stop_signals();

// The signal that asked first; 0: none yet.
int stop_signal();

// From now on a second signal does not end this process by itself: is_stop_urgent()
// tells, and whoever has started other processes ends them first.
void let_starter_end();
bool is_stop_urgent();

// Sign of work (Activity::sign_here) in what may take long before the first step. Throws
// Error(kInterrupted) once a signal has asked to stop: there is nothing to save.
void sign_unless_stopped(int64_t bytes);

// A line for stderr at the first SIGTERM or SIGINT, for those who cannot wait for the end
// of the step to be told; empty: none. One thread sets it.
void set_signal_note(const std::string& note);

// Back to the system's behaviour: the next signal ends the process.
void forget_stop_signals();

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
