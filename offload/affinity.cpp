#include "offload/affinity.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace zero {
namespace {

// The kernel's mask, one bit per CPU, wide enough for any machine that Linux supports.
constexpr int kBitsPerWord = CHAR_BIT * sizeof(unsigned long);
constexpr int kMaxCpus = 8192;
using CpuMask = std::array<unsigned long, kMaxCpus / kBitsPerWord>;

bool read_mask(CpuMask& mask) noexcept {
  return sched_getaffinity(0, sizeof mask, reinterpret_cast<cpu_set_t*>(mask.data())) ==
         0;
}

bool write_mask(const CpuMask& mask) noexcept {
  const auto* cpus = reinterpret_cast<const cpu_set_t*>(mask.data());
  return sched_setaffinity(0, sizeof mask, cpus) == 0;
}

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

}  // namespace

std::vector<int> current_affinity() {
  CpuMask mask{};
  if (!read_mask(mask)) throw_errno("cannot read the CPU affinity");
  std::vector<int> cpus;
  for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (mask[cpu / kBitsPerWord] >> (cpu % kBitsPerWord) & 1) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<int> widest_affinity() {
  CpuMask before{};
  if (!read_mask(before)) throw_errno("cannot read the CPU affinity");

  // The kernel cuts a mask down to the cpuset: ask for everything, see what is left.
  CpuMask everything;
  everything.fill(~0ul);
  if (!write_mask(everything)) return current_affinity();
  const std::vector<int> allowed = current_affinity();
  if (!write_mask(before)) throw_errno("cannot restore the CPU affinity");
  return allowed;
}

bool try_bind(const std::vector<int>& cpus) noexcept {
  CpuMask wanted{};
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= kMaxCpus) return false;
    wanted[cpu / kBitsPerWord] |= 1ul << (cpu % kBitsPerWord);
  }
  CpuMask before{}, found{};
  if (!read_mask(before) || !write_mask(wanted)) return false;
  if (read_mask(found) && found == wanted) return true;
  write_mask(before);  // the kernel drops forbidden CPUs without a word
  return false;
}

void bind_process(const std::vector<int>& cpus) {
  if (try_bind(cpus)) return;
  throw std::runtime_error(
      "cannot bind to CPUs \"" + format_cpus(cpus) + "\": allowed are \"" +
      format_cpus(widest_affinity()) +
      "\"; ask the launcher or the container for more, or do not bind");
}

std::vector<int> fair_share(const std::vector<int>& allowed_cpus_of_node, int local_rank,
                            int local_size) {
  const auto num_cpus = static_cast<int64_t>(allowed_cpus_of_node.size());
  if (num_cpus == 0) throw std::invalid_argument("fair_share: there is no CPU to share");
  if (local_rank < 0 || local_rank >= local_size) {
    throw std::invalid_argument("fair_share: local rank " + std::to_string(local_rank) +
                                " is outside [0, " + std::to_string(local_size) + ")");
  }
  const int64_t begin = num_cpus * local_rank / local_size;
  const int64_t end = num_cpus * (local_rank + 1) / local_size;
  const auto first = allowed_cpus_of_node.begin();
  return {first + begin, first + std::max(end, begin + 1)};
}

std::string format_cpus(std::vector<int> cpus) {
  std::sort(cpus.begin(), cpus.end());
  std::string text;
  for (size_t first = 0, last; first < cpus.size(); first = last + 1) {
    last = first;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[first]);
    if (last > first) text += '-' + std::to_string(cpus[last]);
  }
  return text;
}

}  // namespace zero
