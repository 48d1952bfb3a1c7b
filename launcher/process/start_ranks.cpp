#include "launcher/process/start_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "checkpoint/find.h"
#include "launcher/process/local_ranks.h"
#include "launcher/process/mpirun.h"
#include "launcher/process/process.h"
#include "launcher/process/stop.h"
#include "launcher/run/console.h"
#include "launcher/settings/values.h"
#include "offload/affinity.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

// What schedulers name an allocation's hosts by, and a user mpirun's.
constexpr const char* kHostLists[] = {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE",
                                      "OMPI_MCA_orte_default_hostfile"};

// With fewer mpirun stands still.
constexpr int64_t kFilesOfStarter = 64, kFilesOfRank = 8;

}  // namespace

bool has_several_hosts(const RanksToStart& ranks,
                       const std::vector<std::string>& environment) {
  if (!ranks.hosts.empty()) return true;
  const auto nodes =
      parse_integer(variable(environment, "SLURM_JOB_NUM_NODES").value_or("1"));
  return nodes.value_or(1) > 1 || std::ranges::any_of(kHostLists, [&](const char* name) {
           return variable(environment, name).has_value();
         });
}

int start_ranks(const RanksToStart& ranks) {
  std::error_code error;
  if (!ranks.hosts.empty() && !std::filesystem::is_regular_file(ranks.hosts, error))
    throw Error(ExitCode::kUsage, "there is no such file", ranks.hosts,
                "--hosts FILE, a line for each host: name slots=N");
  const std::vector<std::string> environment = process_environment();
  allow_open_files(kFilesOfStarter + kFilesOfRank * ranks.count, "fewer ranks");
  let_starter_end();
  if (has_several_hosts(ranks, environment)) {
    if (ranks.reads_input)
      throw Error(ExitCode::kUsage, "ranks of several hosts have no terminal",
                  "--interactive", "on one host; or --prompts FILE");
    return start_by_mpirun(ranks, environment);
  }
  const auto num_cores = std::ssize(current_affinity());
  if (ranks.count > num_cores)
    warn(fmt::format("{} ranks share {} core(s)", ranks.count, num_cores));
  return start_here(ranks, environment);
}

void tell_stop(const RanksToStart& ranks) {
  const std::string what = ranks.stop_file.empty() ? "stopping" : "saving and stopping";
  warn(what + "; once more leaves at once");
}

bool has_checkpoint(const RanksToStart& ranks) {
  const auto folder = std::filesystem::path(ranks.stop_file).parent_path().string();
  return !folder.empty() && checkpoint::newest_complete(folder).has_value();
}

}  // namespace zero::launcher
