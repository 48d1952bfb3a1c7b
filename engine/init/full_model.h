#pragma once
#include "engine/comm/ranks.h"
#include "engine/model_scan.h"
#include "engine/shard_store.h"

namespace zero {

// Set masters to the parameters of rank 0, which has memory for all of them; those of the
// other ranks are not looked at. They travel in pieces of a few MiB, one parameter after
// the other. Collective. Throws Error(kUsage) on every rank where rank 0's are deferred.
void take_from_rank_0(const ScannedModel& model, const UnitPlan& plan, ShardStore& shards,
                      Ranks& ranks);

// Set masters to this rank's slices of its own parameters. Local.
void take_own(const ScannedModel& model, const UnitPlan& plan, ShardStore& shards,
              int rank);

// Throw an Error on every rank: kUsage where a rank's parameters are deferred, kDiverged
// with their names where the weights of a rank are not rank 0's. Moves hashes alone.
// Collective.
void require_same_values(const ScannedModel& model, Ranks& ranks);

}  // namespace zero
