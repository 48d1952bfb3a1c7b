#pragma once
#include <string>
#include <vector>

namespace zero::launcher {

// What `--ranks N` asks for.
struct RanksToStart {
  int count = 0;
  std::string hosts;               // a hostfile of mpirun; empty: this machine
  std::vector<std::string> words;  // of the command line, from the verb on
  std::string stop_file;           // empty: the verb knows none
};

// The command that starts them: mpirun with what a user should not have to know. Other
// hosts get the ZERO_ variables among `environment`.
std::vector<std::string> mpirun_words(const RanksToStart& ranks,
                                      const std::string& program,
                                      const std::vector<std::string>& environment);
// Variables for it, "NAME=value", besides those that are set: root, containers.
std::vector<std::string> mpirun_variables(const std::vector<std::string>& environment,
                                          bool is_root);

// Start the ranks under mpirun and wait for them; returns the exit code.
//
// mpirun has a process group of its own, so that the terminal's signals come here; when
// this process is killed, the ranks save and stop. The first signal asks the ranks to
// save and stop (75, or 130 with a line when there was nothing to save yet), a second one
// leaves at once (130). Call catch_stop_signals() before. Throws Error(kEnvironment)
// without mpirun.
int start_ranks(const RanksToStart& ranks);

}  // namespace zero::launcher
