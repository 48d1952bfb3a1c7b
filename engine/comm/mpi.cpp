#include "engine/comm/mpi.h"

#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <tuple>

#include "base/part.h"
#include "base/text.h"
#include "engine/comm/mpi_library.h"
#include "zero/ranks.h"

// Null in a program that is not linked to it.
extern "C" __attribute__((weak)) const zero::MpiLibrary* zero_mpi_library();

namespace zero {
namespace {

constexpr char kMpiPart[] = "libzero_mpi.so";

const MpiLibrary& load_mpi_library() {
  if (zero_mpi_library) return *zero_mpi_library();
  std::string reasons;
  void* const part = open_part(kMpiPart, reasons);
  const auto entry =
      part
          ? reinterpret_cast<decltype(&zero_mpi_library)>(dlsym(part, "zero_mpi_library"))
          : nullptr;
  if (entry) return *entry();
  throw Error(ExitCode::kEnvironment,
              "the part of this program for MPI cannot be loaded (" + reasons + ")",
              kMpiPart, "scripts/build.sh, which installs what is missing");
}

const MpiLibrary& mpi_library() {
  static const MpiLibrary& library = load_mpi_library();
  return library;
}

// By the caller, who is linked to MPI then.
bool is_mpi_initialised() {
  return dlsym(RTLD_DEFAULT, "MPI_Initialized") && mpi_library().is_initialised();
}

}  // namespace

MpiSession::MpiSession()
    : is_owner_(!mpi_library().is_initialised()),
      num_exceptions_(std::uncaught_exceptions()) {
  if (is_owner_) mpi_library().initialise();
  mpi_library().require_threads(is_owner_);
  std::tie(place_, local_) = mpi_library().places();
}

MpiSession::~MpiSession() {
  if (is_owner_ && std::uncaught_exceptions() == num_exceptions_)
    mpi_library().finalise();
}

void MpiSession::abort(ExitCode code) {
  mpi_library().abort(static_cast<int>(code));
  std::_Exit(static_cast<int>(code));
}

std::unique_ptr<Ranks> make_mpi_ranks(const MpiRanksOptions& options) {
  return mpi_library().make_ranks(options);
}

std::unique_ptr<HangPost> make_mpi_hang_post() { return mpi_library().make_hang_post(); }

std::pair<std::string, std::string> mpi_versions() { return mpi_library().versions(); }

std::unique_ptr<Ranks> make_world_ranks(const MpiSession* session) {
  if (!session || session->size() == 1) return make_one_rank();
  return make_mpi_ranks();
}

std::unique_ptr<Ranks> make_ranks() {
  const std::optional<int> announced = announced_ranks();
  if (!announced && !is_mpi_initialised()) return make_one_rank();
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

}  // namespace zero
