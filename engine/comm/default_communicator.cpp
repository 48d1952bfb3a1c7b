#include "engine/comm/default_communicator.h"

#include <mpi.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

#include "engine/comm/communicator.h"
#include "engine/comm/make_communicator.h"
#include "engine/comm/mpi_session.h"
#include "engine/errors.h"

namespace zero {

std::optional<int> announced_ranks() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* text = std::getenv(name);
    if (!text) continue;
    int ranks = 0;
    const auto [end, error] = std::from_chars(text, text + std::strlen(text), ranks);
    if (error == std::errc() && *end == 0 && ranks > 0) return ranks;
    throw Error(ExitCode::kEnvironment,
                std::string(name) + " is '" + text + "', not a number of ranks",
                "the environment", "start with mpirun or srun, or unset it");
  }
  return {};
}

std::unique_ptr<Communicator> make_default_communicator() {
  int is_initialised = 0;
  MPI_Initialized(&is_initialised);
  const std::optional<int> announced = announced_ranks();
  if (!is_initialised && !announced) return make_world_communicator(nullptr);
  static MpiSession session;  // finalises at exit, unless the caller initialised MPI
  if (announced && *announced != session.size()) {
    throw Error(ExitCode::kEnvironment,
                std::to_string(*announced) + " ranks were announced, but MPI connects " +
                    std::to_string(session.size()),
                "the environment",
                "start with the mpirun of the MPI this program is linked to; under srun, "
                "with --mpi=pmix");
  }
  return make_world_communicator(&session);
}

}  // namespace zero
