#pragma once
#include <string>
#include <utility>

namespace zero {

// Of OpenMPI: the headers that this was built with, "4.1.4", and what the library that is
// loaded says of itself, in a line. MPI need not be initialised.
std::pair<std::string, std::string> mpi_versions();

}  // namespace zero
