#pragma once
#include <functional>
#include <span>
#include <vector>

#include "engine/comm/ranks.h"
#include "engine/model_scan.h"
#include "engine/options.h"
#include "engine/shard_store.h"
#include "offload/thread_pool.h"

namespace zero {

// Tell deferred tensors what they became, before anything is made of them.
void name_deferred(const ScannedModel& model);

// Give masters their first values, each rank only its own slices.
//
// Deferred parameters follow Options::init, else what their constructor did; one that
// nothing wrote is an error that lists every such FQN. Parameters with memory are taken
// from rank 0, so that all ranks start the same.
// `which`: of the model's parameters; empty: all of them.
void fill_shards(const ScannedModel& model, const UnitPlan& plan, const Options& options,
                 ShardStore& shards, Ranks& ranks, ThreadPool& threads,
                 const std::vector<bool>& which = {});

// Deferred buffers get their memory and the values their constructor gave them; then all
// are taken from rank 0, unless every rank holds the whole model.
void fill_buffers(const ScannedModel& model, const Options& options, Ranks& ranks);

// Sets elements [begin, begin + values.size()) of one parameter, from any thread.
using FirstValues = std::function<void(int64_t begin, std::span<float> values)>;

// The same values as fill_shards() gives one rank, of one parameter. What it returns
// keeps nothing of the model but a parameter that has memory. Throws Error(kUsage) as
// fill_shards() does.
FirstValues first_values(const ScannedModel& model, size_t param, const Options& options);

}  // namespace zero
