#include "launcher/process/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "engine/comm/hang_watch.h"
#include "engine/comm/mpi.h"
#include "engine/comm/started_ranks.h"
#include "launcher/process/process.h"
#include "launcher/run/console.h"
#include "launcher/settings/values.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

constexpr std::pair<const char*, const char*> kSources[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
    {"PMI_SIZE", "PMI_RANK"}};

std::optional<int> number_in(const std::vector<std::string>& environment,
                             const std::string& name) {
  const std::optional<std::string> text = variable(environment, name);
  if (!text) return std::nullopt;
  const auto value = parse_integer(*text);
  if (value && *value >= 0 && *value < 1 << 30) return static_cast<int>(*value);
  throw Error(ExitCode::kEnvironment,
              name + " is '" + printable(*text) + "', not a number of ranks",
              "the environment", "start with mpirun or srun, or unset it");
}

// Until ranks that MPI connects have found each other: rank 0 says what it waits for, and
// every rank ends in the end.
class ConnectWatch {
 public:
  explicit ConnectWatch(const AnnouncedWorld& announced)
      : thread_([this, announced](std::stop_token stop) { watch(stop, announced); }) {}

 private:
  static constexpr std::chrono::seconds kPatient{15}, kAtMost{600};

  void watch(std::stop_token stop, const AnnouncedWorld& announced) {
    std::unique_lock guard(mutex_);
    const auto is_over = [&](std::chrono::seconds time) {
      return wake_.wait_for(guard, stop, time, [&] { return stop.stop_requested(); });
    };
    if (is_over(kPatient)) return;
    const std::string ranks =
        announced.size > 0 ? fmt::format("{} ranks", announced.size) : "the ranks";
    if (announced.rank == 0) {
      warn(fmt::format(
          "waiting for {} to find each other, {} s so far; hosts with several "
          "networks need the one that joins them: "
          "OMPI_MCA_btl_tcp_if_include and OMPI_MCA_oob_tcp_if_include",
          ranks, kPatient.count()));
    }
    if (is_over(kAtMost - kPatient)) return;
    if (announced.rank == 0)
      warn(fmt::format("{} have not found each other in {} s: this run ends", ranks,
                       kAtMost.count()));
    std::_Exit(static_cast<int>(ExitCode::kHang));
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: ends before what it uses
};

}  // namespace

std::optional<AnnouncedWorld> announced_world(
    const std::vector<std::string>& environment) {
  if (const auto starter = variable(environment, kStarterVariable)) {
    if (const auto self = started_rank(*starter))
      return AnnouncedWorld{kStarterVariable, self->size, self->rank};
  }
  for (const auto& [size_name, rank_name] : kSources) {
    const auto size = number_in(environment, size_name);
    if (size && *size > 0)
      return AnnouncedWorld{size_name, *size,
                            number_in(environment, rank_name).value_or(0)};
  }
  const bool is_pmix = variable(environment, "PMIX_NAMESPACE").has_value();
  if (const auto rank = number_in(environment, "PMIX_RANK"); rank && is_pmix)
    return AnnouncedWorld{"PMIX_RANK", 0, *rank};
  return std::nullopt;
}

int announced_ranks_on_node(const std::vector<std::string>& environment) {
  for (const std::string name :
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE"}) {
    const int ranks = std::atoi(variable(environment, name).value_or("").c_str());
    if (ranks > 0) return ranks;  // "4(x2),3": the first nodes are the fullest
  }
  return std::numeric_limits<int>::max();
}

void check_start(const std::vector<std::string>& environment,
                 const std::optional<AnnouncedWorld>& announced, int64_t asked_for) {
  if (!announced) {
    // What torchrun and accelerate set: each of their processes would train alone.
    const int elastic = variable(environment, "LOCAL_RANK")
                            ? number_in(environment, "WORLD_SIZE").value_or(1)
                            : 1;
    if (asked_for == 0 && elastic > 1) {
      throw Error(ExitCode::kUsage,
                  fmt::format("{} processes were started as torchrun does, and each "
                              "would train alone",
                              elastic),
                  "WORLD_SIZE",
                  fmt::format("without torchrun: zero_launch train --ranks {} ..., or "
                              "mpirun -n {} zero_launch train ...; if it is not meant, "
                              "unset WORLD_SIZE",
                              elastic, elastic));
    }
    const int tasks = number_in(environment, "SLURM_NTASKS").value_or(1);
    if (asked_for > 0 || tasks < 2) return;
    throw Error(ExitCode::kUsage,
                fmt::format("this allocation has {} tasks, and one process would train "
                            "alone",
                            tasks),
                "SLURM_NTASKS",
                fmt::format("srun --mpi=pmix zero_launch train ..., or --ranks {}; "
                            "--ranks 1 if one is meant",
                            tasks));
  }
  const bool is_srun = announced->source.starts_with("SLURM");
  const bool has_pmix =
      variable(environment, "PMIX_NAMESPACE") || variable(environment, "PMIX_RANK");
  if (is_srun && announced->size > 1 && !has_pmix) {
    throw Error(ExitCode::kEnvironment,
                fmt::format("{} announces {} ranks, and srun has started them without "
                            "PMIx: they could not find each other",
                            announced->source, announced->size),
                announced->source, "srun --mpi=pmix zero_launch ...");
  }
  if (asked_for > 0 && announced->size > 0 && asked_for != announced->size) {
    throw Error(
        ExitCode::kUsage,
        fmt::format("{} ranks were started, and ranks is {}", announced->size, asked_for),
        announced->source, "leave --ranks out under mpirun and srun");
  }
}

World::World(const std::optional<AnnouncedWorld>& announced) {
  if (!announced) return;
  if (announced->source == kStarterVariable) {
    const auto self = started_rank();
    if (!self)
      throw Error(ExitCode::kInterrupted,
                  "the process that has started this rank is gone");
    started_ = join_started_ranks(*self);
    rank_ = local_rank_ = started_->rank();
    size_ = local_size_ = started_->size();
    return;
  }
  const ConnectWatch watch(*announced);
  mpi_ = std::make_unique<MpiSession>();
  check_world_size(*announced, mpi_->size());
  rank_ = mpi_->rank();
  size_ = mpi_->size();
  local_rank_ = mpi_->local_rank();
  local_size_ = mpi_->local_size();
}

// A starter ends all ranks when one of them leaves with another code than 0; MPI would
// wait for one that hangs, where nobody watches.
World::~World() {
  Ranks* const ranks = started_ ? started_.get() : watched_.get();
  if (!ranks || std::uncaught_exceptions() > 0) return;
  try {
    ranks->barrier("the end of the program");
  } catch (const Error&) {
    // another rank is gone: who has started it sees that, too
  }
}

std::unique_ptr<Ranks> World::make_ranks() const {
  return started_ ? started_->duplicate() : make_world_ranks(mpi_.get());
}

// A short limit is for trials: ranks are named before it is over.
void World::watch(int64_t give_up) {
  if (size() == 1) return;
  HangLimits limits;
  limits.give_up = static_cast<double>(give_up);
  if (give_up > 0) limits.notice = std::min(limits.notice, limits.give_up / 2);
  watched_ = make_ranks();
  watch_ = std::make_unique<HangWatch>(
      *watched_, started_ ? make_shared_hang_post(*watched_) : make_mpi_hang_post(),
      limits,
      HangReaction{[](const std::string& line) { warn(printable(line)); },
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
