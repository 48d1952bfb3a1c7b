#pragma once
#include <vector>

#include "engine/plan/memory_plan.h"

namespace zero {

// The arrays that a rank keeps its shards in, those of the host's memory first.
// `is_shared` is of each part: MemoryPlan::is_shared.
std::vector<ShardArray> make_shard_arrays(const UnitPlan& plan, const Options& options,
                                          const std::vector<UnitHome>& homes,
                                          const std::vector<bool>& is_shared);

}  // namespace zero
