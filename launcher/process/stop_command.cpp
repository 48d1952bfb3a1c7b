#include "launcher/process/stop_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "launcher/process/announced_world.h"
#include "launcher/process/environment.h"
#include "launcher/run/run_folder.h"

namespace zero::launcher {
namespace {

// Those that pass SIGUSR1 on to all ranks.
constexpr std::array kLaunchers = {"mpirun", "mpiexec", "orterun", "prterun"};

bool is_launcher(const std::string& name) {
  return std::ranges::find(kLaunchers, name) != kLaunchers.end();
}

bool blocks_sigterm(int pid) {
  const std::string mask = status_of_process(pid, "SigBlk");
  return std::strtoull(mask.c_str(), nullptr, 16) >> (SIGTERM - 1) & 1;
}

// Empty where no signal reaches all ranks, as on the far side of an ssh.
std::string signal_command(const Starter& starter,
                           const std::vector<std::string>& environment) {
  const bool is_alone = !announced_world(environment);
  if (is_alone) return fmt::format("kill -USR1 {}", starter.pid);
  if (is_launcher(starter.parent_name))
    return fmt::format("kill -USR1 {}", starter.parent);
  const auto job = variable(environment, "SLURM_JOB_ID"),
             step = variable(environment, "SLURM_STEP_ID");
  if (!job || job->empty() || !step || step->empty()) return "";
  return fmt::format("scancel --signal=USR1 {}.{}", *job, *step);
}

}  // namespace

Starter starter_of_this_process() {
  Starter starter{getpid(), getppid(), "", false};
  std::ifstream file(fmt::format("/proc/{}/comm", starter.parent));
  std::getline(file, starter.parent_name);
  starter.parent_is_shielded = blocks_sigterm(starter.parent);
  return starter;
}

bool is_impatient(const Starter& starter) {
  return is_launcher(starter.parent_name) && !starter.parent_is_shielded;
}

std::string stop_command(const Starter& starter,
                         const std::vector<std::string>& environment,
                         const std::string& folder) {
  const std::string signal = signal_command(starter, environment);
  return (signal.empty() ? "" : signal + ", or ") + "touch " + stop_file(folder);
}

}  // namespace zero::launcher
