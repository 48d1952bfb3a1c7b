#pragma once
#include <memory>
#include <optional>

namespace zero {

class Communicator;

// The number of ranks that the process manager announced to this process:
// OMPI_COMM_WORLD_SIZE (mpirun) or SLURM_STEP_NUM_TASKS (srun). Nothing when it was
// started alone. Throws Error(kEnvironment) if it is not a number.
std::optional<int> announced_ranks();

// The ranks this process belongs to, for a program that does not care how it was started:
// those of MPI if the caller initialised it or ranks were announced (then MPI is
// initialised here, and finalised at exit), else one rank without MPI. Throws
// Error(kEnvironment) if MPI knows another number of ranks than announced. Collective.
std::unique_ptr<Communicator> make_default_communicator();

}  // namespace zero
