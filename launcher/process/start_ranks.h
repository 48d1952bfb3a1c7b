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
  bool reads_input = false;        // the first rank gets this process's, and its terminal
};

// Are there other hosts than this one: those of --hosts, or of a scheduler's allocation?
bool has_several_hosts(const RanksToStart& ranks,
                       const std::vector<std::string>& environment);

// Start the ranks and wait for them; returns the exit code. Those of this host are our
// own processes (local_ranks.h); on several hosts mpirun starts them (mpirun.h).
//
// Ranks have process groups of their own, so that the terminal's signals come here; when
// this process is killed, they save and stop. The first signal asks them to save and stop
// (75, or 130 with a line when there was nothing to save yet), a second one ends them and
// this process at once (130). Call catch_stop_signals() before. Throws
// Error(kEnvironment) where they cannot be started, and Error(kUsage) on several hosts if
// one reads.
int start_ranks(const RanksToStart& ranks);

// Say what the first signal does to them.
void tell_stop(const RanksToStart& ranks);

// Has their run a checkpoint that the same command goes on from?
bool has_checkpoint(const RanksToStart& ranks);

}  // namespace zero::launcher
