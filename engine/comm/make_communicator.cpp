#include "engine/comm/make_communicator.h"

#include "engine/comm/communicator.h"
#include "engine/comm/mpi_communicator.h"
#include "engine/comm/mpi_session.h"
#include "engine/comm/self_communicator.h"

namespace zero {

std::unique_ptr<Communicator> make_world_communicator(const MpiSession* session) {
  if (!session || session->size() == 1) return make_self_communicator();
  return make_mpi_communicator();
}

}  // namespace zero
