#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zero::launcher {

// The ranks that whoever started this process has announced in its environment, known
// before MPI is.
struct AnnouncedWorld {
  std::string source;  // OMPI_COMM_WORLD_SIZE, ...
  int size = 0;        // 0: not told, only that there are ranks
  int rank = 0;
};

// Nothing when this process was started by itself. `environment` holds "NAME=value".
//
// Read in this order: mpirun of OpenMPI; srun (the step's tasks, not the job's: a batch
// script is one process and sees the job's too); mpiexec of MPICH and Intel, whose ranks
// this program cannot join but must not mistake for processes of their own; PMIx.
std::optional<AnnouncedWorld> announced_world(const std::vector<std::string>& environment);

// The most ranks on one node, as mpirun or srun tell it; else all may be on this one.
int announced_ranks_on_node(const std::vector<std::string>& environment);

// Throws before MPI starts when ranks could not find each other, or a process would train
// alone where several were meant: srun without PMIx, an allocation of several tasks
// without srun, another number of ranks than `asked_for` (0: any).
void check_start(const std::vector<std::string>& environment,
                 const std::optional<AnnouncedWorld>& announced, int64_t asked_for);

}  // namespace zero::launcher
