#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "launcher/plan/run_plan.h"
#include "launcher/settings/settings.h"

namespace zero {
class Ranks;
}

namespace zero::launcher {

class World;

// Compare the plan of all ranks of this host with what is free here and on its GPUs,
// before anything is taken; collective.
//
// On every rank throws Error(kEnvironment) that ends in `advice` when the plan's bytes do
// not fit somewhere, unless settings.ignore_plan: a host warns then. It warns, too, where
// activations alone are too much for a GPU, or for a forward alone.
void require_memory(Ranks& ranks, const World& world, const RunPlan& plan,
                    const Settings& settings, int64_t gpu_room,
                    const std::function<std::string()>& advice);

// What is free on this host; nothing where the system does not tell.
std::optional<int64_t> free_host_bytes();

// What a run may take of this host: what is free, and what its programs hold already; at
// most settings.host_memory.
int64_t room_on_host(const Settings& settings, int64_t held);

// What became of a plan, in bytes; of the rank that took most.
struct MemoryUse {
  int64_t engine = 0;       // allocated by the engine
  int64_t offloaded = 0;    // allocated by it for inputs of units, in the host's memory
  int64_t activations = 0;  // held by tensors at most, on a GPU where one computes
  int64_t reserved = 0;     // on a GPU, by LibTorch at most, with what it keeps for later
  int64_t process = 0;      // resident at most, all in all
};

// Collective; `engine` and `offloaded` are what this rank's engine allocated.
MemoryUse largest_use(Ranks& ranks, int64_t engine, int64_t offloaded, bool on_gpu);

std::string to_text(const RunPlan& plan, const MemoryUse& use);

}  // namespace zero::launcher
