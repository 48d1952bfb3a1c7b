#include "engine/comm/mpi_versions.h"

#include <mpi.h>

namespace zero {

std::pair<std::string, std::string> mpi_versions() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string loaded = text;
  return {std::to_string(OMPI_MAJOR_VERSION) + "." + std::to_string(OMPI_MINOR_VERSION) +
              "." + std::to_string(OMPI_RELEASE_VERSION),
          loaded.substr(0, loaded.find('\n'))};
}

}  // namespace zero
