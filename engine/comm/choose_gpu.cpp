#include "engine/comm/choose_gpu.h"

#include <map>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "base/processes.h"
#include "engine/comm/agreement.h"
#include "engine/comm/collectives.h"
#include "engine/comm/thread_ranks.h"
#include "offload/topology.h"
#include "zero/errors.h"
#include "zero/gpu.h"
#include "zero/mesh.h"

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

// Does NCCL let each rank share a GPU?
bool all_share_by_nccl(Ranks& ranks) {
  int64_t num = nccl_shares_gpus();
  ranks.all_reduce(std::span(&num, 1), ReduceOp::kSum, "asking NCCL");
  return num == ranks.size();
}

HostView look(int local_rank) {
  HostView view{host_name(), local_rank, -1, {}, {}};
  const int count = num_gpus();
  for (int gpu = 0; gpu < count; ++gpu) {
    view.identities.push_back(identity_of_gpu(gpu));
    view.gpu_nodes.push_back(numa_node_of_gpu(gpu));
  }
  if (count > 1) view.node = numa_node_of(current_affinity());
  return view;
}

std::string to_text(const HostView& view) {
  std::ostringstream text;
  text << view.host << ' ' << view.local_rank << ' ' << view.node;
  for (size_t gpu = 0; gpu < view.identities.size(); ++gpu)
    text << ' ' << view.identities[gpu] << ' ' << view.gpu_nodes[gpu];
  return text.str();
}

HostView parse_view(const std::string& text) {
  HostView view;
  std::istringstream words(text);
  words >> view.host >> view.local_rank >> view.node;
  std::string identity;
  for (int node = -1; words >> identity >> node;) {
    view.identities.push_back(identity);
    view.gpu_nodes.push_back(node);
  }
  return view;
}

// What this rank sees, and which of its GPUs it takes; -1: none.
std::pair<HostView, int> find(DeviceChoice device, Ranks& ranks) {
  HostView mine;
  Agreement(ranks, "looking for GPUs").run([&] {
    if (device != DeviceChoice::kCpu) mine = look(ranks.local_rank());
  });
  std::vector<HostView> all;
  for (const std::string& text : ranks.gather(to_text(mine)))
    all.push_back(parse_view(text));
  const int index = mine.identities.empty() ? -1 : nearest_gpu(mine, all);
  return {std::move(mine), index};
}

}  // namespace

int nearest_gpu(const HostView& mine, const std::vector<HostView>& all) {
  std::map<int, int> node_of;  // by local rank
  int num_here = 0;
  bool see_the_same = true;
  for (const HostView& view : all) {
    if (view.host != mine.host) continue;
    ++num_here;
    node_of[view.local_rank] = view.node;
    see_the_same = see_the_same && view.identities == mine.identities;
  }
  const int count = static_cast<int>(mine.identities.size());
  const bool are_numbered =
      std::ssize(node_of) == num_here && node_of.rbegin()->first == num_here - 1;
  if (!see_the_same || !are_numbered) return mine.local_rank % count;
  std::vector<int> nodes;
  for (const auto& [local_rank, node] : node_of) nodes.push_back(node);
  return deal_gpus(nodes, mine.gpu_nodes)[mine.local_rank];
}

int find_gpu(DeviceChoice device, Ranks& ranks) { return find(device, ranks).second; }

GpuChoice choose_gpu(const Options& options, Ranks& ranks) {
  const auto [mine, index] = find(options.device, ranks);
  const std::string identity = index < 0 ? "" : mine.identities[index];
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
  const bool is_shared = share(ranks_on, options.share_gpu);
  return {index, is_shared && !all_share_by_nccl(ranks),
          static_cast<int>(ranks_on[identity].size())};
}

bool may_keep_shards(UnitMemory where, int world_size) {
  return where == UnitMemory::kGpu ||
         (where == UnitMemory::kGpuByHost && world_size == 1);
}

UnitMemory unit_memory(const GpuChoice& gpu) {
  if (gpu.index < 0) return UnitMemory::kHost;
  return gpu.is_shared || !has_nccl() ? UnitMemory::kGpuByHost : UnitMemory::kGpu;
}

UnitMemory expected_unit_memory(const Options& options, int world_size,
                                int ranks_of_host) {
  const int group = Mesh(world_size, options.shard_ranks).group;
  const UnitMemory host = group > 1 && ranks_of_host % group == 0
                              ? UnitMemory::kSharedHost
                              : UnitMemory::kHost;
  if (options.device == DeviceChoice::kCpu) return host;
  const int count = num_gpus();
  const int sharing = ranks_of_host > 0 ? ranks_of_host : world_size;
  if (count > 0)
    return unit_memory(
        {.index = 0,
         .is_shared = options.share_gpu && count < sharing && !nccl_shares_gpus()});
  return options.device == DeviceChoice::kCuda ? UnitMemory::kGpu : host;
}

std::vector<int> deal_gpus(const std::vector<int>& rank_nodes,
                           const std::vector<int>& gpu_nodes) {
  const auto num_ranks = static_cast<int>(rank_nodes.size());
  const auto num_gpus = static_cast<int>(gpu_nodes.size());
  const int least = num_ranks / num_gpus;  // ranks of a GPU, and of some one more
  int num_fuller = num_ranks % num_gpus;
  std::vector<int> ranks_of(num_gpus), gpus(num_ranks, -1);
  for (const bool only_near : {true, false}) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      if (gpus[rank] >= 0) continue;
      // The first of those that have fewest, and may have another rank.
      int& best = gpus[rank];
      for (int gpu = 0; gpu < num_gpus; ++gpu) {
        const bool is_near = rank_nodes[rank] >= 0 && gpu_nodes[gpu] == rank_nodes[rank];
        const bool has_room =
            ranks_of[gpu] < least || (ranks_of[gpu] == least && num_fuller > 0);
        if ((only_near && !is_near) || !has_room) continue;
        if (best < 0 || ranks_of[gpu] < ranks_of[best]) best = gpu;
      }
      if (best >= 0 && ranks_of[best]++ == least) --num_fuller;
    }
  }
  return gpus;
}

}  // namespace zero
