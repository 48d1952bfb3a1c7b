#include "engine/comm/mpi_session.h"

#include <cstdlib>
#include <exception>

#include "engine/comm/mpi_check.h"

namespace zero {

MpiSession::MpiSession() : num_exceptions_(std::uncaught_exceptions()) {
  initialise();
  const MpiPlace place = place_in(MPI_COMM_WORLD);
  rank_ = place.rank;
  size_ = place.size;
  find_local_ranks();
}

MpiSession::~MpiSession() {
  if (is_owner_ && std::uncaught_exceptions() == num_exceptions_) MPI_Finalize();
}

void MpiSession::abort(ExitCode code) {
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::_Exit(static_cast<int>(code));
}

void MpiSession::initialise() {
  int is_initialised = 0, level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Initialized(&is_initialised), "MPI_Initialized");
  if (is_initialised) {
    check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  } else {
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level),
              "MPI_Init_thread");
    is_owner_ = true;
    return_mpi_errors(MPI_COMM_WORLD);
  }
  if (level < MPI_THREAD_MULTIPLE) {
    throw Error(ExitCode::kEnvironment,
                "MPI offers thread level " + std::to_string(level) +
                    ", the engine needs MPI_THREAD_MULTIPLE (" +
                    std::to_string(MPI_THREAD_MULTIPLE) + ")",
                "MPI_Init_thread",
                is_initialised
                    ? "ask for MPI_THREAD_MULTIPLE where the program initialises MPI"
                    : "use an OpenMPI that was built with threads");
  }
}

void MpiSession::find_local_ranks() {
  MPI_Comm local;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_,
                                MPI_INFO_NULL, &local),
            "MPI_Comm_split_type");
  const MpiPlace place = place_in(local);
  local_rank_ = place.rank;
  local_size_ = place.size;
  check_mpi(MPI_Comm_free(&local), "MPI_Comm_free");
}

}  // namespace zero
