#pragma once
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/options.h"
#include "engine/plan/unit_plan.h"
#include "engine/shard_store.h"
#include "offload/thread_pool.h"

namespace zero {

// The norm of the whole gradient from its shards, with one all-reduce. Padding and frozen
// parameters are outside it.
//
// L2 and L1 sums are exact (see offload/exact_sum.h): the same bits whatever the number
// of ranks. The result is the norm of the stored sums times `factor`; not finite when any
// gradient is not.
double gradient_norm(const UnitPlan& plan, ShardStore& shards, NormType type,
                     double factor, Communicator& comm, Stream& stream,
                     ThreadPool& threads);

// The FQN of the first parameter (in plan order) with a non-finite gradient on any rank;
// "" if there is none. Collective.
std::string first_non_finite(const UnitPlan& plan, const std::vector<std::string>& fqns,
                             ShardStore& shards, Communicator& comm, Stream& stream);

// What gradients are multiplied with so that their norm is at most `clip`; 1 if clip is 0
// (torch's clip_grad_norm_: clip / (norm + 1e-6), at most 1).
double clip_coefficient(double norm, double clip);

}  // namespace zero
