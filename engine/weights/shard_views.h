#pragma once
#include <vector>

#include "engine/weights/shard_store.h"
#include "zero/engine.h"

namespace zero {

struct ParamDescription;

// This rank's slices of a model's parameters, in their order, as they lie now: updates
// that are under way are not waited for. Views of a GPU's memory are read through
// `memory` if it is not null.
std::vector<ShardView> shard_views(const std::vector<ParamDescription>& params,
                                   const UnitPlan& plan, ShardStore& shards,
                                   const Options& options, int rank,
                                   FarMemory* memory = nullptr);

}  // namespace zero
