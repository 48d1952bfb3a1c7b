#include "launcher/run/memory_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "base/processes.h"
#include "engine/comm/agreement.h"
#include "engine/device/gpu.h"
#include "launcher/process/process.h"
#include "launcher/process/process_setup.h"
#include "launcher/process/world.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "offload/topology.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

std::string need_text(const RunPlan& plan, int64_t of_host, int64_t room,
                      const Settings& settings) {
  const bool is_limit = room == settings.host_memory;
  return fmt::format("{} on this host ({} rank(s) of {}), {} {}", short_bytes(of_host),
                     plan.ranks_on_node, short_bytes(of_host / plan.ranks_on_node),
                     short_bytes(room),
                     is_limit ? "is allowed by host_memory" : "is free");
}

std::string gpu_text(int64_t needed, int64_t room, const Settings& settings) {
  return fmt::format(
      "{} of it by each rank, {} {}", short_bytes(needed), short_bytes(room),
      settings.device_memory > 0 ? "is allowed by device_memory" : "is free");
}

}  // namespace

std::optional<int64_t> free_host_bytes() {
  try {
    return available_memory_bytes();
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

int64_t room_on_host(const Settings& settings, int64_t held) {
  const std::optional<int64_t> free = free_host_bytes();
  const int64_t room = free ? *free + held : std::numeric_limits<int64_t>::max();
  return settings.host_memory > 0 ? std::min(room, settings.host_memory) : room;
}

void require_memory(Ranks& ranks, const World& world, const RunPlan& plan,
                    const Settings& settings, int64_t gpu_room,
                    const std::function<std::string()>& advice) {
  const int64_t room = room_on_host(settings, plan.program.of_node(plan.ranks_on_node));
  const int64_t engine =
      plan.of_node(plan.engine_host_bytes() + (plan.on_gpu ? 0 : plan.key_values));
  const int64_t gpu = plan.engine_gpu_bytes() + (plan.on_gpu ? plan.key_values : 0);
  const std::string takes = plan.key_values > 0 ? "the engine, and keys and values, take "
                                                : "the engine takes ";
  const int64_t all = plan.node_bytes();
  const int64_t needed = plan.is_forward_alone ? engine : all;
  Agreement(ranks, "memory").run([&] {
    if (settings.ignore_plan) return;
    if (gpu > gpu_room) {
      throw Error(
          ExitCode::kEnvironment,
          "a GPU's memory does not suffice: " + takes + gpu_text(gpu, gpu_room, settings),
          "host " + host_name(), advice());
    }
    if (needed <= room) return;
    const std::string what =
        engine > room ? takes : "engine, activations and program take about ";
    throw Error(
        ExitCode::kEnvironment,
        "memory does not suffice: " + what +
            need_text(plan, engine > room ? engine : needed, room, settings),
        "host " + host_name(),
        (room == settings.host_memory ? "a larger --host-memory, or " : "") + advice());
  });
  if (world.local_rank() == 0 && plan.gpu_bytes() > gpu_room) {
    warn("a GPU's memory may not suffice: engine, activations and CUDA take about " +
         gpu_text(plan.gpu_bytes(), gpu_room, settings));
  }
  if (world.local_rank() == 0 && all > room) {
    warn("memory may not suffice: engine, activations and program take about " +
         need_text(plan, all, room, settings));
  }
}

MemoryUse largest_use(Ranks& ranks, int64_t engine, int64_t offloaded, bool on_gpu) {
  const TorchMemory torch =
      on_gpu ? peak_torch_memory() : TorchMemory{.tensors = peak_tensor_bytes()};
  return {ranks.largest(engine, "engine bytes"),
          ranks.largest(offloaded, "offloaded bytes"),
          ranks.largest(torch.tensors, "tensor bytes"),
          ranks.largest(torch.reserved, "reserved bytes"),
          ranks.largest(peak_resident_bytes(), "process bytes")};
}

std::string to_text(const RunPlan& plan, const MemoryUse& use) {
  const std::string activations =
      plan.activations < 0 ? "" : short_bytes(plan.activations) + " planned, ";
  const std::string offloaded =
      plan.offloaded == 0 && use.offloaded == 0
          ? ""
          : fmt::format("offloaded inputs {} planned, {} allocated; ",
                        short_bytes(plan.offloaded), short_bytes(use.offloaded));
  const std::string reserved =
      use.reserved == 0 ? "" : fmt::format(" ({} taken)", short_bytes(use.reserved));
  return fmt::format(
      "memory of a rank: engine {} planned, {} allocated; activations {}{} at most{}; "
      "{}process {} at most, with pages of its files",
      short_bytes(plan.engine_bytes()), short_bytes(use.engine), activations,
      short_bytes(use.activations), reserved, offloaded, short_bytes(use.process));
}

}  // namespace zero::launcher
