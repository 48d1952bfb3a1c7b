#include "launcher/plan/run_plan.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "engine/errors.h"

namespace zero::launcher {
namespace {

// The number behind "slots=" in a line of a hosts file; 0: it tells none.
int slots_of(const std::string& line) {
  const size_t at = line.find("slots=");
  return at == line.npos ? 0 : std::max(0, std::atoi(line.c_str() + at + 6));
}

std::vector<int> slots_of_hosts(const std::string& path) {
  std::ifstream file(path);
  std::vector<int> slots;
  for (std::string line; std::getline(file, line);) {
    line.resize(std::min(line.find('#'), line.size()));
    if (line.find_first_not_of(" \t\r") != line.npos) slots.push_back(slots_of(line));
  }
  if (slots.empty())
    throw Error(ExitCode::kUsage, "no host is listed", path, "--hosts FILE: one a line");
  return slots;
}

}  // namespace

int64_t RunPlan::engine_bytes() const {
  int64_t bytes = 0;
  for (const MemoryEntry& entry : engine) bytes += entry.bytes;
  return bytes;
}

int64_t RunPlan::rank_bytes() const {
  return engine_bytes() + std::max<int64_t>(activations, 0) + program;
}

PassShape pass_shape(const Settings& settings, int num_ranks) {
  const bool is_whole = settings.accumulate == "unit";
  PassShape pass;
  pass.rows = is_whole ? std::max<int64_t>(1, settings.global_batch / num_ranks)
                       : settings.micro_batch;
  pass.rows_in_units = std::min(pass.rows, settings.micro_batch);
  pass.element_bytes = settings.dtype == "fp32" ? 4 : 2;
  pass.recomputes = settings.recompute == "unit";
  return pass;
}

int ranks_on_fullest(const std::string& hosts_file, int num_ranks) {
  const std::vector<int> slots = slots_of_hosts(hosts_file);
  const auto num_hosts = static_cast<int>(slots.size());
  if (std::ranges::find(slots, 0) != slots.end())
    return (num_ranks + num_hosts - 1) / num_hosts;
  int fullest = 0, left = num_ranks;
  for (const int here : slots) {
    fullest = std::max(fullest, std::min(here, left));
    left -= std::min(here, left);
  }
  return fullest + (left + num_hosts - 1) / num_hosts;
}

int64_t program_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kibibytes = 0;
    if (words >> name >> kibibytes && name == "RssAnon:") return kibibytes * 1024;
  }
  return 0;
}

}  // namespace zero::launcher
