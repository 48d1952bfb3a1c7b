#include "engine/comm/mpi_communicator.h"

#include "engine/comm/mpi_check.h"
#include "engine/comm/mpi_transport.h"
#include "engine/comm/process_neighbours.h"
#include "engine/comm/queued_communicator.h"
#include "engine/comm/shared_transport.h"
#include "engine/errors.h"

namespace zero {

namespace {

bool is_on_one_host(MPI_Comm comm) {
  const MpiPlace place = place_in(comm);
  MPI_Comm local;
  check_mpi(
      MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, place.rank, MPI_INFO_NULL, &local),
      "MPI_Comm_split_type");
  const int local_size = place_in(local).size;
  check_mpi(MPI_Comm_free(&local), "MPI_Comm_free");
  return local_size == place.size;
}

bool do_all_agree(bool claim, MPI_Comm comm) {
  int value = claim;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MIN, comm),
            "MPI_Allreduce");
  return value != 0;
}

// Memory that rank 0 makes and all others open; null for all ranks if one of them cannot.
std::shared_ptr<std::byte> share_memory(Neighbours& neighbours, int64_t bytes,
                                        MPI_Comm comm) {
  const int rank = place_in(comm).rank;
  std::shared_ptr<std::byte> memory;
  MemoryTicket ticket;
  auto attempt = [&](auto make) {
    try {
      memory = make();
    } catch (const Error&) {  // another container, another user: messages still work
    }
  };
  if (rank == 0) attempt([&] { return neighbours.create(bytes, ticket); });
  check_mpi(MPI_Bcast(&ticket, sizeof(ticket), MPI_BYTE, 0, comm), "MPI_Bcast");
  if (rank != 0) attempt([&] { return neighbours.open(ticket, bytes); });
  return do_all_agree(memory != nullptr, comm) ? memory : nullptr;
}

// Null where the ranks cannot share memory.
std::unique_ptr<Transport> make_shared_transport(MPI_Comm comm, int64_t slot_bytes) {
  if (!is_on_one_host(comm)) return nullptr;
  if (slot_bytes == 0) slot_bytes = kDefaultSlotBytes;
  const MpiPlace place = place_in(comm);
  auto neighbours = std::make_shared<ProcessNeighbours>();
  auto memory =
      share_memory(*neighbours, SharedArea::bytes_for(place.size, slot_bytes), comm);
  if (!memory) return nullptr;
  return std::make_unique<SharedTransport>(
      neighbours, SharedArea(memory, place.size, slot_bytes), place.rank);
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(
    const MpiCommunicatorOptions& options) {
  MPI_Comm comm = duplicate_of(options.comm ? *static_cast<const MPI_Comm*>(options.comm)
                                            : MPI_COMM_WORLD);
  std::unique_ptr<Transport> transport;
  if (options.use_shared_memory)
    transport = make_shared_transport(comm, options.slot_bytes);
  if (transport) {
    check_mpi(MPI_Comm_free(&comm), "MPI_Comm_free");
  } else {
    transport = std::make_unique<MpiTransport>(comm, options.max_message_bytes);
  }
  return std::make_unique<QueuedCommunicator>(std::move(transport));
}

}  // namespace zero
