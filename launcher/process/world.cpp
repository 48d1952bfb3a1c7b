#include "launcher/process/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "checkpoint/work.h"
#include "engine/activity.h"
#include "engine/comm/hang_watch.h"
#include "engine/comm/mpi_ranks.h"
#include "launcher/run/console.h"

namespace zero::launcher {

World::World(const std::optional<AnnouncedWorld>& announced) {
  if (!announced) return;
  mpi_ = std::make_unique<MpiSession>();
  check_world_size(*announced, mpi_->size());
}

World::~World() = default;

int World::rank() const { return mpi_ ? mpi_->rank() : 0; }
int World::size() const { return mpi_ ? mpi_->size() : 1; }
int World::local_rank() const { return mpi_ ? mpi_->local_rank() : 0; }
int World::local_size() const { return mpi_ ? mpi_->local_size() : 1; }

std::unique_ptr<Ranks> World::make_ranks() const { return make_world_ranks(mpi_.get()); }

// A short limit is for trials: ranks are named before it is over.
void World::watch(int64_t give_up) {
  if (size() == 1) return;
  checkpoint::set_work_listener(Activity::sign_here);
  HangLimits limits;
  limits.give_up = static_cast<double>(give_up);
  if (give_up > 0) limits.notice = std::min(limits.notice, limits.give_up / 2);
  watch_ = std::make_unique<HangWatch>(
      limits, HangReaction{[](const std::string& line) { warn(printable(line)); },
                           [] { std::_Exit(static_cast<int>(ExitCode::kHang)); }});
}

void World::abort(ExitCode code) {
  if (mpi_ && mpi_->size() > 1) mpi_->abort(code);
  std::_Exit(static_cast<int>(code));
}

void check_world_size(const AnnouncedWorld& announced, int mpi_size) {
  // PMIx tells no size, but a process that is alone in MPI cannot be rank 1.
  const int expected =
      announced.size > 0 ? announced.size : std::max(mpi_size, announced.rank + 1);
  if (expected == mpi_size) return;
  const bool is_slurm = announced.source.starts_with("SLURM");
  throw Error(
      ExitCode::kEnvironment,
      fmt::format("{} announces {} ranks, MPI sees {}: each would train by itself",
                  announced.source, expected, mpi_size),
      fmt::format("rank {} as announced", announced.rank),
      is_slurm ? "srun --mpi=pmix zero_launch ..."
               : "start with the mpirun of the OpenMPI that zero_launch was built with");
}

}  // namespace zero::launcher
