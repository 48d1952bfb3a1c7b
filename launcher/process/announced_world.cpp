#include "launcher/process/announced_world.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <limits>

#include "engine/errors.h"
#include "launcher/process/environment.h"
#include "launcher/run/console.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

struct Names {
  const char *size, *rank;
};
constexpr std::array kSources = {
    Names{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    Names{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
    Names{"PMI_SIZE", "PMI_RANK"},
};

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

bool has_pmix(const std::vector<std::string>& environment) {
  return variable(environment, "PMIX_NAMESPACE") || variable(environment, "PMIX_RANK");
}

}  // namespace

std::optional<AnnouncedWorld> announced_world(
    const std::vector<std::string>& environment) {
  for (const Names& names : kSources) {
    const auto size = number_in(environment, names.size);
    if (size && *size > 0)
      return AnnouncedWorld{names.size, *size,
                            number_in(environment, names.rank).value_or(0)};
  }
  if (const auto rank = number_in(environment, "PMIX_RANK"))
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
  if (is_srun && announced->size > 1 && !has_pmix(environment)) {
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

}  // namespace zero::launcher
