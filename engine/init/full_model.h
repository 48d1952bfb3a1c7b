#pragma once
#include <vector>

#include "engine/init/shard_writer.h"
#include "engine/unit/model_scan.h"
#include "zero/ranks.h"
#include "zero/reports.h"

namespace zero {

// Set masters to the parameters of rank 0, which has memory for all of them; those of the
// other ranks are not looked at. They travel in pieces of a few MiB, one parameter after
// the other. Returns how they start. Collective. Throws Error(kUsage) on every rank where
// rank 0's are deferred or not finite.
std::vector<InitEntry> take_from_rank_0(const ScannedModel& model, ShardWriter& writer,
                                        Ranks& ranks);

// Set masters to this rank's slices of its own parameters. Collective, as the errors are.
std::vector<InitEntry> take_own(const ScannedModel& model, ShardWriter& writer,
                                Ranks& ranks);

// Throw an Error on every rank: kUsage where a rank's parameters are deferred, kDiverged
// with their names where the weights of a rank are not rank 0's. Moves hashes alone.
// Collective.
void require_same_values(const ScannedModel& model, Ranks& ranks);

}  // namespace zero
