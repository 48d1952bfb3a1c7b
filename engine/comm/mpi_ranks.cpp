#include "engine/comm/mpi_ranks.h"

#include <mpi.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "base/text.h"
#include "engine/comm/mpi_transport.h"
#include "engine/comm/shared_transport.h"

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

}  // namespace

std::unique_ptr<Ranks> make_mpi_ranks(const MpiRanksOptions& options) {
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

std::unique_ptr<Ranks> make_world_ranks(const MpiSession* session) {
  if (!session || session->size() == 1) return make_one_rank();
  return make_mpi_ranks();
}

std::unique_ptr<Ranks> make_ranks() {
  int is_initialised = 0;
  MPI_Initialized(&is_initialised);
  const std::optional<int> announced = announced_ranks();
  if (!is_initialised && !announced) return make_one_rank();
  static MpiSession session;  // finalises at exit, unless the caller initialised MPI
  if (announced && *announced != session.size()) {
    throw Error(
        ExitCode::kEnvironment,
        text_of(*announced, " ranks were announced, but MPI connects ", session.size()),
        "the environment",
        "start with the mpirun of the MPI this program is linked to; under srun, "
        "with --mpi=pmix");
  }
  return make_world_ranks(&session);
}

std::optional<int> announced_ranks() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* text = std::getenv(name);
    if (!text) continue;
    int ranks = 0;
    const auto [end, error] = std::from_chars(text, text + std::strlen(text), ranks);
    if (error == std::errc() && *end == 0 && ranks > 0) return ranks;
    throw Error(ExitCode::kEnvironment,
                text_of(name, " is '", text, "', not a number of ranks"),
                "the environment", "start with mpirun or srun, or unset it");
  }
  return {};
}

MpiSession::MpiSession() : num_exceptions_(std::uncaught_exceptions()) {
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
    throw Error(
        ExitCode::kEnvironment,
        text_of("MPI offers thread level ", level,
                ", the engine needs MPI_THREAD_MULTIPLE (", MPI_THREAD_MULTIPLE, ")"),
        "MPI_Init_thread",
        is_initialised ? "ask for MPI_THREAD_MULTIPLE where the program initialises MPI"
                       : "use an OpenMPI that was built with threads");
  }
  place_ = place_in(MPI_COMM_WORLD);
  local_ = local_place_in(MPI_COMM_WORLD);
}

MpiSession::~MpiSession() {
  if (is_owner_ && std::uncaught_exceptions() == num_exceptions_) MPI_Finalize();
}

void MpiSession::abort(ExitCode code) {
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::_Exit(static_cast<int>(code));
}

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
