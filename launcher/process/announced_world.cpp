#include "launcher/process/announced_world.h"

#include <array>

#include "engine/errors.h"
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
  for (const std::string& entry : environment) {
    if (!entry.starts_with(name + "=")) continue;
    const std::string text = entry.substr(name.size() + 1);
    const auto value = parse_integer(text);
    if (value && *value >= 0 && *value < 1 << 30) return static_cast<int>(*value);
    throw Error(ExitCode::kEnvironment,
                name + " is '" + printable(text) + "', not a number of ranks",
                "the environment", "start with mpirun or srun, or unset it");
  }
  return std::nullopt;
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

}  // namespace zero::launcher
