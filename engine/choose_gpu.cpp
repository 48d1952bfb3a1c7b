#include "engine/choose_gpu.h"

#include <map>
#include <string>
#include <vector>

#include "engine/comm/agreement.h"
#include "engine/comm/nccl.h"
#include "engine/comm/thread_ranks.h"
#include "engine/device/gpu.h"
#include "engine/errors.h"

namespace zero {
namespace {

constexpr char kWhere[] = "--device (Options::device)";

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 < ranks.size() ? ", " : " and ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

// Do ranks share a GPU, where they may? Threads of one process would wait for each other
// in the GPU's default stream.
bool share(const std::map<std::string, std::vector<int>>& ranks_on, bool may_share) {
  bool is_shared = false;
  for (const auto& [identity, ranks] : ranks_on) {
    if (ranks.size() == 1) continue;
    is_shared = true;
    if (may_share && !ranks_are_threads()) continue;
    throw Error(ExitCode::kEnvironment,
                ranks_text(ranks) + " would share one GPU (" + identity + ")", kWhere,
                may_share ? "ranks that are threads need one each: fewer of them, ranks "
                            "that are processes, or --device cpu"
                          : "fewer ranks, --share-gpu (weights and gradients then go "
                            "through the host's memory), or --device cpu");
  }
  return is_shared;
}

}  // namespace

GpuChoice choose_gpu(const Options& options, Ranks& ranks) {
  int index = -1;
  std::string identity;
  Agreement(ranks, "looking for GPUs").run([&] {
    const int count = options.device == DeviceChoice::kCpu ? 0 : num_gpus();
    if (count == 0) return;
    index = ranks.local_rank() % count;
    identity = identity_of_gpu(index);
  });
  // Ranks that were told different things are refused later, with all that differs.
  const std::string told =
      std::to_string(static_cast<int>(options.device)) + (options.share_gpu ? "s" : "-");
  for (const std::string& of_rank : ranks.gather(told)) {
    if (of_rank != told) return {};
  }
  std::map<std::string, std::vector<int>> ranks_on;
  const std::vector<std::string> identities = ranks.gather(identity);
  for (int rank = 0; rank < ranks.size(); ++rank)
    ranks_on[identities[rank]].push_back(rank);
  const auto without = ranks_on.extract("");
  if (ranks_on.empty()) {
    if (options.device != DeviceChoice::kCuda) return {};
    throw Error(ExitCode::kEnvironment, "no GPU was found", kWhere, "--device cpu");
  }
  if (!without.empty()) {
    throw Error(ExitCode::kEnvironment,
                ranks_text(without.mapped()) + " found no GPU, " +
                    ranks_text(ranks_on.begin()->second) + " did",
                kWhere, "start ranks only where there are GPUs, or --device cpu");
  }
  return {index, share(ranks_on, options.share_gpu),
          static_cast<int>(ranks_on[identity].size())};
}

UnitMemory unit_memory(const GpuChoice& gpu) {
  if (gpu.index < 0) return UnitMemory::kHost;
  return gpu.is_shared || !has_nccl() ? UnitMemory::kGpuByHost : UnitMemory::kGpu;
}

UnitMemory expected_unit_memory(const Options& options, int world_size) {
  if (options.device == DeviceChoice::kCpu) return UnitMemory::kHost;
  const int count = num_gpus();
  if (count > 0)
    return unit_memory(
        {.index = 0, .is_shared = options.share_gpu && count < world_size});
  return options.device == DeviceChoice::kCuda ? UnitMemory::kGpu : UnitMemory::kHost;
}

}  // namespace zero
