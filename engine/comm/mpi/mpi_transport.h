#pragma once
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <string>

#include "engine/comm/hang_post.h"
#include "engine/comm/transport.h"

namespace zero {

// Throws Error(kEnvironment) with MPI's own text unless code is MPI_SUCCESS. Every call
// of MPI goes through here; communicators must return errors instead of aborting
// (return_mpi_errors).
void check_mpi(int code, const std::string& function);

void return_mpi_errors(MPI_Comm comm);

// A communicator of the same ranks that returns errors; collective.
MPI_Comm duplicate_of(MPI_Comm comm);

Place place_in(MPI_Comm comm);
// Among the ranks of this host; collective.
Place local_place_in(MPI_Comm comm);

// A transport by messages of MPI, for ranks on several hosts. Takes the communicator and
// frees it.
//
// Waits poll and sleep: MPI_Wait would keep the rank's core busy. Messages are at most
// max_message_bytes, so that counts fit an int and the scratch memory of a reduction
// stays bounded.
std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm, int64_t max_message_bytes);

// Of all ranks of MPI; collective.
std::unique_ptr<HangPost> make_mpi_post();

}  // namespace zero
