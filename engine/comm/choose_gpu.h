#pragma once

#include <string>
#include <vector>

#include "engine/plan/memory_plan.h"
#include "zero/options.h"
#include "zero/ranks.h"

namespace zero {

// Where a rank computes.
struct GpuChoice {
  int index = -1;  // of num_gpus(); -1: on the host, as all ranks do
  // Do any ranks compute on the same GPU, and NCCL cannot? The same on all ranks.
  bool is_shared = false;
  int num_ranks = 1;  // that compute on this one
};

// The GPU of num_gpus() that this rank computes on unless `device` says otherwise; -1: it
// finds none. Of a host's GPUs, which its ranks take in turn, one that is near to the
// cores this thread may run on, where ranks are bound to NUMA nodes (deal_gpus() below).
// Collective; where one rank cannot use its GPU, all throw Error(kEnvironment).
int find_gpu(DeviceChoice device, Ranks& ranks);

// Each rank of a host on a GPU of its own, as far as they go. Collective: every rank
// throws if one cannot use its GPU, if some have one and others have not, if ranks would
// share one and Options::share_gpu does not allow it, or if there is none and kCuda asks
// for it. Error(kEnvironment).
GpuChoice choose_gpu(const Options& options, Ranks& ranks);

// May shards stay in the memory of GPUs that ranks compute on so? Not where the ranks
// exchange weights through the host's.
bool may_keep_shards(UnitMemory where, int world_size);

// What that means for the memory plan.
UnitMemory unit_memory(const GpuChoice& gpu);

// The same, as far as it can be known before there are ranks. `ranks_of_host`: how many
// start on each host; 0: all.
UnitMemory expected_unit_memory(const Options& options, int world_size,
                                int ranks_of_host = 0);

// Deal a host's GPUs out to its ranks: a rank gets one of its own NUMA node where that is
// to be had, and no GPU more ranks than if each rank in turn took the next one, which is
// what happens where all are near to one node or nobody tells.
//
// `rank_nodes`: the NUMA node of each rank; `gpu_nodes`: of each GPU, at least one; -1:
// unknown. The GPU of each rank.
std::vector<int> deal_gpus(const std::vector<int>& rank_nodes,
                           const std::vector<int>& gpu_nodes);

// What a rank sees of its host.
struct HostView {
  std::string host = "-";
  int local_rank = 0;
  int node = -1;                        // its own NUMA node
  std::vector<std::string> identities;  // of the GPUs
  std::vector<int> gpu_nodes;
};

// The one of the GPUs that `mine` sees which is its rank's. In turn where the ranks of
// its host do not see the same ones: then somebody has dealt them out already.
int nearest_gpu(const HostView& mine, const std::vector<HostView>& all);

}  // namespace zero
