#pragma once

#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/shard_report.h"

namespace zero::checkpoint {

// Put the ranks' slices together into whole tensors, sorted by kind and name.
//
// Throws CheckpointError naming the FQN and the ranks: a gap, an overlap, ranks that
// disagree about shape or type; and naming the rank: a missing or repeated report.
std::vector<TensorEntry> join_slices(const std::vector<ShardReport>& reports);

}  // namespace zero::checkpoint
