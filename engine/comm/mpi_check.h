#pragma once
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <string>

namespace zero {

// Throws Error(kEnvironment) with MPI's own text unless code is MPI_SUCCESS. Every call
// of MPI goes through here; communicators must return errors instead of aborting
// (return_mpi_errors).
void check_mpi(int code, const std::string& function);

void return_mpi_errors(MPI_Comm comm);

}  // namespace zero
