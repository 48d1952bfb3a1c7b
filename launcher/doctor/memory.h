#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "launcher/doctor/finding.h"
#include "offload/fastest_threads.h"

namespace zero::launcher {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// In bytes, where nothing else is said.
struct MemoryFacts {
  int64_t total = 0, free = 0;
  int64_t group_limit = kNoLimit;
  int64_t swap_total = 0, swap_free = 0;
  int64_t overcommit = 0;         // vm.overcommit_memory; 2: strict; -1: nobody tells
  std::string huge_pages;         // "always", "madvise", "never"; empty: nobody tells
  std::vector<ThreadRate> rates;  // empty: not measured
};

struct LimitFacts {
  int64_t locked = kNoLimit, file = kNoLimit, address_space = kNoLimit;
  int64_t open_files = kNoLimit, processes = kNoLimit;  // numbers
  bool has_gpu_or_rdma = false;                         // who locks memory
  int64_t shm_total = -1, shm_free = 0;                 // /dev/shm; -1: there is none
};

// Measures what threads move, which takes a moment. Throws std::runtime_error when the
// machine cannot be read.
MemoryFacts read_memory();
LimitFacts read_limits();

Findings judge(const MemoryFacts& facts);
Findings judge(const LimitFacts& facts);

// "always [madvise] never" -> "madvise"
std::string chosen_in(const std::string& line);

}  // namespace zero::launcher
