#include <fmt/format.h>

#include <algorithm>

#include "launcher/process/process.h"
#include "launcher/process/process_setup.h"
#include "launcher/process/world.h"
#include "launcher/settings/values.h"
#include "offload/topology.h"

namespace zero::launcher {

std::optional<std::vector<int>> wider_affinity(const std::vector<int>& current,
                                               const std::vector<int>& node_cpus,
                                               int local_rank, int local_size) {
  constexpr size_t kHardwareThreads = 2;  // of one core
  const std::vector<int> share = fair_share(node_cpus, local_rank, local_size);
  if (current.size() > kHardwareThreads || share.size() <= current.size())
    return std::nullopt;
  return share;
}

std::optional<std::vector<int>> own_affinity(const std::vector<int>& open_cpus,
                                             int local_rank, int local_size) {
  if (std::ssize(open_cpus) < local_size) return std::nullopt;
  return fair_share(open_cpus, local_rank, local_size);
}

int share_of_quota(int share, double quota, int local_size) {
  if (quota == 0) return share;
  return std::clamp(static_cast<int>(quota / local_size), 1, share);
}

Cores take_cores(const World& world, bool may_bind) {
  const int rank = world.local_rank(), size = world.local_size();
  const std::vector<int> before = current_affinity();
  std::vector<int> node_cpus = cpuset_of_node();
  // Whoever started the starter may have chosen among them.
  if (world.is_started_here())
    std::erase_if(node_cpus, [&](int cpu) { return !std::ranges::count(before, cpu); });
  Cores cores{before, 1, format_cpus(before)};
  const auto better = world.is_started_here()
                          ? own_affinity(node_cpus, rank, size)
                          : wider_affinity(before, node_cpus, rank, size);
  if (may_bind && better && try_bind(*better)) {
    cores.cpus = *better;
    cores.note = format_cpus(*better);
    if (!world.is_started_here())
      cores.note += fmt::format(" (was pinned to {})", format_cpus(before));
  }
  const size_t fair = fair_share(node_cpus, rank, size).size();
  cores.share = share_of_quota(static_cast<int>(std::min(cores.cpus.size(), fair)),
                               cpu_quota(), size);
  return cores;
}

int choose_threads(int asked_for, bool is_deterministic, int by_variable, int share) {
  if (asked_for > 0) return asked_for;
  if (is_deterministic) return 1;
  return std::max(1, by_variable > 0 ? by_variable : share);
}

int threads_of_variable(const std::vector<std::string>& environment) {
  constexpr int64_t kMost = 4096;  // as --threads
  const std::string text = variable(environment, "OMP_NUM_THREADS").value_or("");
  const auto threads = parse_integer(text.substr(0, text.find(',')));
  return threads && *threads >= 1 && *threads <= kMost ? static_cast<int>(*threads) : 0;
}

ThreadsAgain choose_threads_again(int64_t saved, bool are_asked_for, int chosen,
                                  int64_t num_cores) {
  if (saved == 0 || saved == chosen) return {chosen, ""};
  if (are_asked_for)
    return {chosen,
            fmt::format("threads was {}, is {}, so bits may differ", saved, chosen)};
  if (saved <= num_cores) return {static_cast<int>(saved), ""};
  return {chosen, fmt::format("threads was {}; a rank has {} core{}: {}, so bits may "
                              "differ",
                              saved, num_cores, num_cores == 1 ? "" : "s", chosen)};
}

ThreadChoice choose_adam_threads(int asked_for, int64_t most_bytes) {
  if (asked_for > 0) return {asked_for, {}};
  return fastest_threads(most_bytes);
}

}  // namespace zero::launcher
