#pragma once
#include <vector>

namespace zero {

// Deal a host's GPUs out to its ranks: a rank gets one of its own NUMA node where that is
// to be had, and no GPU more ranks than if each rank in turn took the next one, which is
// what happens where all are near to one node or nobody tells.
//
// `rank_nodes`: the NUMA node of each rank; `gpu_nodes`: of each GPU, at least one; -1:
// unknown. The GPU of each rank.
std::vector<int> deal_gpus(const std::vector<int>& rank_nodes,
                           const std::vector<int>& gpu_nodes);

}  // namespace zero
