#include "engine/comm/mpi_check.h"

#include "engine/errors.h"

namespace zero {

void check_mpi(int code, const std::string& function) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  throw Error(ExitCode::kEnvironment, function + " failed: " + std::string(text, length),
              "MPI", "see what MPI printed above, and whether another rank has ended");
}

void return_mpi_errors(MPI_Comm comm) {
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

MPI_Comm duplicate_of(MPI_Comm comm) {
  MPI_Comm duplicate;
  check_mpi(MPI_Comm_dup(comm, &duplicate), "MPI_Comm_dup");
  return_mpi_errors(duplicate);
  return duplicate;
}

Place place_in(MPI_Comm comm) {
  Place place;
  check_mpi(MPI_Comm_rank(comm, &place.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &place.size), "MPI_Comm_size");
  return place;
}

Place local_place_in(MPI_Comm comm) {
  MPI_Comm local;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, place_in(comm).rank,
                                MPI_INFO_NULL, &local),
            "MPI_Comm_split_type");
  const Place place = place_in(local);
  check_mpi(MPI_Comm_free(&local), "MPI_Comm_free");
  return place;
}

}  // namespace zero
