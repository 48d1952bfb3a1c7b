#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/no_copy.h"
#include "engine/comm/hang_post.h"
#include "engine/comm/transport.h"
#include "zero/errors.h"

// MPI, of which nothing is loaded before ranks of it are asked for.
namespace zero {

// MPI for the lifetime of a program, and this process's place in it.
//
// Initialises MPI with threads unless the caller has done so, and finalises only what it
// initialised. While an exception passes through it does not finalise, as that would wait
// for the other ranks: mpirun then ends them. Throws Error(kEnvironment) if MPI cannot be
// loaded, or used from several threads.
class MpiSession : NoCopy {
 public:
  MpiSession();
  ~MpiSession();

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  int local_rank() const { return local_.rank; }  // among the ranks of this host
  int local_size() const { return local_.size; }

  // End all ranks at once; this process does not return.
  [[noreturn]] void abort(ExitCode code);

 private:
  bool is_owner_;
  int num_exceptions_;
  Place place_, local_;
};

// The number of ranks that the process manager announced to this process:
// OMPI_COMM_WORLD_SIZE (mpirun) or SLURM_STEP_NUM_TASKS (srun). Nothing when it was
// started alone. Throws Error(kEnvironment) if it is not a number.
std::optional<int> announced_ranks();

struct MpiRanksOptions {
  const void* comm = nullptr;     // the caller's MPI_Comm, by address; null: all ranks
  bool use_shared_memory = true;  // where all ranks are on one host
  int64_t slot_bytes = 0;         // of that memory, at once; 0: as much as is fast
  int64_t max_message_bytes = 16 << 20;  // between hosts
};

// Ranks as processes that mpirun or srun started; MPI must be initialised. Collective.
//
// On one host data goes through shared memory, else through messages of MPI on a
// communicator of our own.
std::unique_ptr<Ranks> make_mpi_ranks(const MpiRanksOptions& options = {});

// All ranks of the program. Without a session, or alone in it: one rank that needs no
// MPI. Collective.
std::unique_ptr<Ranks> make_world_ranks(const MpiSession* session);

// Messages of the watches of all ranks; collective. MPI must outlive it.
std::unique_ptr<HangPost> make_mpi_hang_post();

// Versions of OpenMPI: the headers that this was built with, "4.1.4", and what the
// library that is loaded says of itself, in a line. MPI need not be initialised.
std::pair<std::string, std::string> mpi_versions();

}  // namespace zero
