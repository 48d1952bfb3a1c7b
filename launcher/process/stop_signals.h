#pragma once

namespace zero::launcher {

// Let SIGUSR1, SIGTERM and SIGINT ask this process to save and stop. A second one, half
// a second or more behind the first, ends it at once with code 130: a scheduler's
// duplicate of the same signal is none. Only a program does this, never a library.
void catch_stop_signals();

// The signal that asked first; 0: none yet.
int stop_signal();

// Back to the system's behaviour: the next signal ends the process.
void forget_stop_signals();

}  // namespace zero::launcher
