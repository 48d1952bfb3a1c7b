#pragma once
#include "engine/comm/mpi_check.h"

namespace zero {

// A transport by messages of MPI, for ranks on several hosts. Takes the communicator and
// frees it.
//
// Waits poll and sleep: MPI_Wait would keep the rank's core busy. Messages are at most
// max_message_bytes, so that counts fit an int and the scratch memory of a reduction
// stays bounded.
std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm, int64_t max_message_bytes);

}  // namespace zero
