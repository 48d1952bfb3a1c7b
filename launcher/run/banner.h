#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/memory_plan.h"
#include "launcher/data/batches.h"
#include "launcher/model.h"
#include "launcher/settings/settings.h"
#include "offload/fastest_threads.h"

namespace zero::launcher {

// What a run tells before its first step.
struct BannerFacts {
  std::vector<std::string> cores;  // of each rank: "0-3 (was pinned to 0)"
  int threads = 1;                 // of each rank's model
  ThreadChoice adam_threads;       // of rank 0's optimizer
  ModelShape shape;
  int64_t num_parameters = 0;
  int num_units = 0;
  std::string data;  // "text, 143 files, 1,234,567 tokens"
  int64_t samples_per_epoch = 0;
  BatchPlan batch;
  std::vector<MemoryEntry> memory;  // of rank 0
  int64_t activations = -1;         // estimated; -1: nobody knows
  std::string stop_command;         // "kill -USR1 1234, or touch runs/a/STOP"
};

std::string banner(const Settings& settings, const BannerFacts& facts);

// "rank 0: cores 0 (was pinned to 0), rank 1: ..." with the same text said once for many
// ranks.
std::string describe_cores(const std::vector<std::string>& cores);

// "2 (1: 6.1 GB/s, 2: 11.7 GB/s)"; the number alone where nothing was measured.
std::string describe_threads(const ThreadChoice& choice);

}  // namespace zero::launcher
