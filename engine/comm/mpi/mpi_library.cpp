#include "engine/comm/mpi_library.h"

#include <mpi.h>

#include <memory>

#include "base/text.h"
#include "engine/comm/mpi/mpi_transport.h"
#include "engine/comm/shared_transport.h"
#include "zero/ranks.h"

namespace zero {
namespace {

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
std::unique_ptr<Transport> try_shared_memory(MPI_Comm comm, int64_t slot_bytes) {
  const Place place = place_in(comm);
  if (local_place_in(comm).size < place.size) return nullptr;
  if (slot_bytes == 0) slot_bytes = kDefaultSlotBytes;
  auto neighbours = make_process_neighbours();
  auto memory =
      share_memory(*neighbours, SharedArea::bytes_for(place.size, slot_bytes), comm);
  if (!memory) return nullptr;
  return make_shared_transport(neighbours, SharedArea(memory, place.size, slot_bytes),
                               place.rank);
}

std::unique_ptr<Ranks> make_ranks_of_mpi(const MpiRanksOptions& options) {
  MPI_Comm comm = duplicate_of(options.comm ? *static_cast<const MPI_Comm*>(options.comm)
                                            : MPI_COMM_WORLD);
  std::unique_ptr<Transport> transport;
  if (options.use_shared_memory) transport = try_shared_memory(comm, options.slot_bytes);
  if (transport) {
    check_mpi(MPI_Comm_free(&comm), "MPI_Comm_free");
  } else {
    transport = make_mpi_transport(comm, options.max_message_bytes);
  }
  return std::make_unique<Ranks>(std::move(transport));
}

bool is_initialised() {
  int is_initialised = 0;
  check_mpi(MPI_Initialized(&is_initialised), "MPI_Initialized");
  return is_initialised != 0;
}

void initialise() {
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level),
            "MPI_Init_thread");
  return_mpi_errors(MPI_COMM_WORLD);
}

void require_threads(bool is_ours) {
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level >= MPI_THREAD_MULTIPLE) return;
  throw Error(
      ExitCode::kEnvironment,
      text_of("MPI offers thread level ", level,
              ", the engine needs MPI_THREAD_MULTIPLE (", MPI_THREAD_MULTIPLE, ")"),
      "MPI_Init_thread",
      is_ours ? "use an OpenMPI that was built with threads"
              : "ask for MPI_THREAD_MULTIPLE where the program initialises MPI");
}

void finalise() { MPI_Finalize(); }

void abort_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

std::pair<Place, Place> places() {
  return {place_in(MPI_COMM_WORLD), local_place_in(MPI_COMM_WORLD)};
}

std::pair<std::string, std::string> versions_of_mpi() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string loaded = text;
  return {text_of(OMPI_MAJOR_VERSION, ".", OMPI_MINOR_VERSION, ".", OMPI_RELEASE_VERSION),
          loaded.substr(0, loaded.find('\n'))};
}

constexpr MpiLibrary kLibrary = {is_initialised,    initialise,    require_threads,
                                 finalise,          abort_all,     places,
                                 make_ranks_of_mpi, make_mpi_post, versions_of_mpi};

}  // namespace
}  // namespace zero

const zero::MpiLibrary* zero_mpi_library() { return &zero::kLibrary; }
