#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/doctor/finding.h"
#include "launcher/process/child.h"
#include "launcher/process/world.h"

namespace zero::launcher {

// What became of ranks that were to say hello.
struct Hello {
  int num_ranks = 2;
  std::string by = "--ranks 2";  // who has started them
  double limit = 0;              // seconds that they had
  ChildOutcome outcome;
  std::string cure;  // of the fault, where that is known
};

struct MpiFacts {
  std::string library;    // "Open MPI v4.1.4, ..."
  std::string mpirun;     // "mpirun (Open MPI) 4.1.4"; empty: there is none in PATH
  bool has_srun = false;  // in PATH
  bool is_root = false;   // and may an mpirun be started so?
  bool allows_root = false;
  int num_cores = 0;        // of this host, where ranks may run
  int num_slurm_tasks = 0;  // of the job that this is in; 0: in none
  bool has_pmix = false;    // who started this process offers it
  std::optional<AnnouncedWorld> announced;
  std::optional<Hello> hello;  // nothing: not tried
};

// All but the hello.
MpiFacts read_mpi(const std::vector<std::string>& environment,
                  const std::optional<AnnouncedWorld>& announced);

// Start two ranks of this program, as --ranks does, that join MPI and tell each other
// where they are; 10 seconds at most.
Hello say_hello(const std::vector<std::string>& environment);

// The same among the ranks that somebody else has started: collective. Nothing on all but
// the first.
std::optional<Hello> join_hello(const std::vector<std::string>& environment,
                                const AnnouncedWorld& announced);

// What the first of those two ranks prints.
std::string hello_of(const World& world);

Findings judge(const MpiFacts& facts);

}  // namespace zero::launcher
