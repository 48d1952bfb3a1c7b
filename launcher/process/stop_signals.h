#pragma once
#include <string>

namespace zero::launcher {

// Let SIGUSR1, SIGTERM, SIGINT and SIGHUP (unless it is ignored, as under nohup) ask this
// process to save and stop. A second one, half
// a second or more behind the first, ends it at once with code 130: a scheduler's
// duplicate of the same signal is none. Only a program does this, never a library.
void catch_stop_signals();

// The signal that asked first; 0: none yet.
int stop_signal();

// A line for stderr at the first SIGTERM or SIGINT, for those who cannot wait for the end
// of the step to be told; empty: none. One thread sets it.
void set_signal_note(const std::string& note);

// Back to the system's behaviour: the next signal ends the process.
void forget_stop_signals();

}  // namespace zero::launcher
