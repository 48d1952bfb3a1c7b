#pragma once
#include <cstdint>
#include <memory>

namespace zero {

class Communicator;

struct MpiCommunicatorOptions {
  const void* comm = nullptr;     // the caller's MPI_Comm, by address; null: all ranks
  bool use_shared_memory = true;  // where all ranks are on one host
  int64_t slot_bytes = 0;         // of that memory, at once; 0: as much as is fast
  int64_t max_message_bytes = 16 << 20;  // between hosts
};

// Ranks as processes that mpirun or srun started; MPI must be initialised. Collective.
//
// On one host data goes through shared memory, else through messages of MPI on a
// communicator of our own.
std::unique_ptr<Communicator> make_mpi_communicator(
    const MpiCommunicatorOptions& options = {});

}  // namespace zero
