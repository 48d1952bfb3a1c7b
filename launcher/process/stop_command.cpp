#include "launcher/process/stop_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "launcher/process/announced_world.h"
#include "launcher/process/environment.h"
#include "launcher/run/run_folder.h"

namespace zero::launcher {
namespace {

// Those that pass SIGUSR1 on to all ranks.
constexpr std::array kLaunchers = {"mpirun", "mpiexec", "orterun", "prterun"};

// Empty where no signal reaches all ranks, as on the far side of an ssh.
std::string signal_command(const Starter& starter,
                           const std::vector<std::string>& environment) {
  const bool is_alone = !announced_world(environment);
  if (is_alone) return fmt::format("kill -USR1 {}", starter.pid);
  if (is_impatient(starter)) return fmt::format("kill -USR1 {}", starter.parent);
  const auto job = variable(environment, "SLURM_JOB_ID"),
             step = variable(environment, "SLURM_STEP_ID");
  if (!job || job->empty() || !step || step->empty()) return "";
  return fmt::format("scancel --signal=USR1 {}.{}", *job, *step);
}

}  // namespace

Starter starter_of_this_process() {
  Starter starter{getpid(), getppid(), ""};
  std::ifstream file(fmt::format("/proc/{}/comm", starter.parent));
  std::getline(file, starter.parent_name);
  return starter;
}

bool is_impatient(const Starter& starter) {
  return std::ranges::find(kLaunchers, starter.parent_name) != kLaunchers.end();
}

std::string stop_command(const Starter& starter,
                         const std::vector<std::string>& environment,
                         const std::string& folder) {
  const std::string signal = signal_command(starter, environment);
  return (signal.empty() ? "" : signal + ", or ") + "touch " + stop_file(folder);
}

}  // namespace zero::launcher
