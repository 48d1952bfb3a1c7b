#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "base/files.h"
#include "launcher/doctor/finding.h"
#include "launcher/run/lines.h"
#include "offload/affinity.h"
#include "offload/topology.h"

namespace zero::launcher {
namespace {

// ---- memory

Finding judge_room(const MemoryFacts& facts) {
  const int64_t all = std::min(facts.total, facts.group_limit);
  std::string text =
      fmt::format("{} free of {}", short_bytes(facts.free), short_bytes(facts.total));
  if (facts.group_limit < facts.total)
    text += fmt::format(", {} allowed by the control group", short_bytes(all));
  const Row numbers = {{"free", facts.free}, {"total", facts.total}, {"allowed", all}};
  if (facts.free < kGiB / 2)
    return {Mark::kBad, "room", text,
            "end what takes it (top), or ask the batch system or container for more "
            "(--mem, --memory)",
            numbers};
  if (facts.free < all / 5)
    return {Mark::kNote, "room", text + ": other programs have most of it",
            "end them (top), or let `zero_launch plan` tell what fits beside them",
            numbers};
  return {Mark::kOk, "room", text, "", numbers};
}

Finding judge_swap(const MemoryFacts& facts) {
  const int64_t used = facts.swap_total - facts.swap_free;
  if (facts.swap_total == 0)
    return {Mark::kOk, "swap", "none: what asks for too much is ended"};
  const std::string text =
      fmt::format("{} of {} in use", short_bytes(used), short_bytes(facts.swap_total));
  if (used > facts.swap_total / 10)
    return {
        Mark::kNote, "swap", text + ": memory was short",
        "end what takes memory, then swapoff -a && swapon -a; a run that swaps stands"};
  return {Mark::kOk, "swap", text};
}

Finding judge_overcommit(const MemoryFacts& facts) {
  if (facts.overcommit < 0)
    return {Mark::kNote, "overcommit", "nobody tells the policy", "is /proc mounted?"};
  if (facts.overcommit != 2)
    return {Mark::kOk, "overcommit", "memory counts when it is touched"};
  return {Mark::kNote, "overcommit",
          "strict: memory counts when it is asked for, and may be refused while some is "
          "free",
          "sysctl vm.overcommit_memory=0, or a larger vm.overcommit_ratio"};
}

Finding judge_huge_pages(const MemoryFacts& facts) {
  if (facts.huge_pages == "always" || facts.huge_pages == "madvise")
    return {Mark::kOk, "huge pages", facts.huge_pages};
  return {Mark::kNote, "huge pages",
          facts.huge_pages.empty() ? "the kernel does not tell of any" : facts.huge_pages,
          "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root): updates "
          "get faster"};
}

Finding judge_speed(const MemoryFacts& facts) {
  if (facts.rates.empty())
    return {Mark::kNote, "speed", "not measured", "`zero_launch bench adam` measures it"};
  const ThreadRate& best =
      std::ranges::max(facts.rates, {}, &ThreadRate::bytes_per_second);
  std::string each;
  for (const ThreadRate& rate : facts.rates)
    each += fmt::format("{}{}: {:.1f}", each.empty() ? "" : ", ", rate.threads,
                        rate.bytes_per_second / 1e9);
  const double gb_per_s = best.bytes_per_second / 1e9;
  const std::string text = fmt::format(
      "{:.1f} GB/s, as the optimizer moves 64 MiB (threads {})", gb_per_s, each);
  const Row numbers = {{"gb_per_s", gb_per_s}, {"threads", best.threads}};
  constexpr double kSlow = 3;
  if (gb_per_s < kSlow)
    return {Mark::kNote, "speed", text + ": slow",
            "look who else computes here (top); a machine of one's own", numbers};
  return {Mark::kOk, "speed", text, "", numbers};
}

// ---- limits

int64_t soft_limit(decltype(RLIMIT_AS) of) {
  rlimit limit{};
  if (getrlimit(of, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, kNoLimit));
}

// Where any limit is one too many.
Finding judge_size(const std::string& name, int64_t limit, Mark mark,
                   const std::string& what, const std::string& cure) {
  if (limit == kNoLimit) return {Mark::kOk, name, "not limited"};
  return {mark, name, short_bytes(limit) + what, cure};
}

Finding judge_locked(const LimitFacts& facts) {
  if (facts.locked != kNoLimit && !facts.has_gpu_or_rdma)
    return {
        Mark::kOk, "memlock",
        short_bytes(facts.locked) + "; without a GPU or InfiniBand nothing is locked"};
  return judge_size("memlock", facts.locked, Mark::kNote,
                    ": GPUs and InfiniBand may be refused their pages",
                    "ulimit -l unlimited; docker --ulimit memlock=-1; Slurm "
                    "PropagateResourceLimitsExcept=MEMLOCK");
}

Finding judge_number(const std::string& name, int64_t limit, int64_t few, int64_t too_few,
                     const std::string& who, const std::string& cure) {
  const std::string text = limit == kNoLimit ? "not limited" : std::to_string(limit);
  if (limit >= few) return {Mark::kOk, name, text};
  return {limit < too_few ? Mark::kBad : Mark::kNote, name, text + ": " + who, cure};
}

// Ranks of a host share memory that has no name. OpenMPI and NCCL keep theirs here.
Finding judge_shm(const LimitFacts& facts) {
  const std::string cure =
      "docker --shm-size=1g, or mount -o remount,size=1g /dev/shm; one rank needs none";
  if (facts.shm_total < 0)
    return {Mark::kNote, "/dev/shm", "there is none, and OpenMPI and NCCL look for it",
            cure};
  const std::string text = fmt::format("{} free of {}", short_bytes(facts.shm_free),
                                       short_bytes(facts.shm_total));
  const Row numbers = {{"free", facts.shm_free}, {"total", facts.shm_total}};
  if (facts.shm_free <= 16 * kMiB)
    return {Mark::kBad, "/dev/shm", text + ": OpenMPI needs some MiB for each rank",
            "remove what lies there and belongs to nobody; " + cure, numbers};
  if (facts.shm_free <= 64 * kMiB)
    return {Mark::kNote, "/dev/shm", text + ": little for many ranks, and for NCCL", cure,
            numbers};
  return {Mark::kOk, "/dev/shm", text, "", numbers};
}

}  // namespace

MemoryFacts read_memory() {
  const auto kibibytes = [](const char* key) {
    return read_field("/proc/meminfo", key).value_or(0) * 1024;
  };
  MemoryFacts facts;
  facts.total = kibibytes("MemTotal:");
  facts.free = available_memory_bytes();
  facts.group_limit = memory_limit_bytes();
  facts.swap_total = kibibytes("SwapTotal:");
  facts.swap_free = kibibytes("SwapFree:");
  facts.overcommit = read_number("/proc/sys/vm/overcommit_memory").value_or(-1);
  facts.huge_pages = chosen_in(read_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  constexpr int64_t kEnough = 256 * kMiB;
  if (facts.free > kEnough)
    facts.rates = thread_rates(
        threads_to_try(static_cast<int>(current_affinity().size())), kEnough);
  return facts;
}

LimitFacts read_limits() {
  LimitFacts facts;
  facts.locked = soft_limit(RLIMIT_MEMLOCK);
  facts.file = soft_limit(RLIMIT_FSIZE);
  facts.address_space = soft_limit(RLIMIT_AS);
  facts.open_files = soft_limit(RLIMIT_NOFILE);
  facts.processes = soft_limit(RLIMIT_NPROC);
  facts.has_gpu_or_rdma =
      access("/dev/nvidia0", F_OK) == 0 || access("/dev/infiniband", F_OK) == 0;
  struct statvfs status {};
  if (statvfs("/dev/shm", &status) == 0) {
    facts.shm_total = static_cast<int64_t>(status.f_blocks * status.f_frsize);
    facts.shm_free = static_cast<int64_t>(status.f_bavail * status.f_frsize);
  }
  return facts;
}

Findings judge(const MemoryFacts& facts) {
  return {judge_room(facts), judge_swap(facts), judge_overcommit(facts),
          judge_huge_pages(facts), judge_speed(facts)};
}

Findings judge(const LimitFacts& facts) {
  return {
      judge_locked(facts),
      judge_number("open files", facts.open_files, 1024, 256,
                   "a checkpoint has a file for each rank that wrote it",
                   "ulimit -n 4096"),
      judge_number("processes", facts.processes, 1024, 128,
                   "threads count, too, and all of this user's",
                   "ulimit -u unlimited; docker --pids-limit -1"),
      judge_size("file size", facts.file, facts.file < kGiB ? Mark::kBad : Mark::kNote,
                 ": a larger shard of a checkpoint cannot be written",
                 "ulimit -f unlimited"),
      judge_size("address space", facts.address_space, Mark::kNote,
                 ", of which threads take much for nothing", "ulimit -v unlimited"),
      judge_shm(facts)};
}

std::string chosen_in(const std::string& line) {
  const size_t begin = line.find('[');
  const size_t end = line.find(']', begin == line.npos ? 0 : begin);
  return begin == line.npos || end == line.npos ? ""
                                                : line.substr(begin + 1, end - begin - 1);
}

}  // namespace zero::launcher
