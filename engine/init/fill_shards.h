#pragma once
#include <string>
#include <vector>

#include "engine/init/run_functions.h"
#include "engine/init/shard_writer.h"
#include "engine/unit/model_scan.h"
#include "engine/weights/shard_store.h"
#include "offload/thread_pool.h"
#include "zero/options.h"
#include "zero/ranks.h"
#include "zero/reports.h"

namespace zero {

// Tell deferred tensors what they became, before anything is made of them.
void name_deferred(const ScannedModel& model);

// Throws Error(kUsage) that lists the parameters, of all or of those in `which`, that
// nothing says anything about.
void require_known(const ScannedModel& model, const Options& options,
                   const InitFunctions& functions, const std::vector<bool>& which = {});

// Where one parameter's first values come from.
struct FirstValues {
  std::string who, distribution;  // as in InitEntry
  SetValues set;
};

// Of a deferred parameter: what its function makes (InitFunctions), else what the first
// rule of Options::init for it says, else what its constructor did. Of one with memory: a
// copy. Throws Error(kUsage) with its name where nothing wrote it, or not all of it.
FirstValues first_values(const ScannedModel& model, size_t param, const Options& options,
                         InitFunctions& functions);

// Give masters their first values, each rank only its own slices, and count that each
// element was stored once. Parameters with memory are taken from rank 0, so that all
// ranks start the same. Deferred ones that nothing says anything about are an error that
// lists all of them; so are values that are not finite.
// `which`: of the model's parameters; empty: all of them. Returns how they started if
// Options::init_report asks. Collective.
std::vector<InitEntry> fill_shards(const ScannedModel& model, const UnitPlan& plan,
                                   const Options& options, ShardStore& shards,
                                   InitFunctions& functions, Ranks& ranks,
                                   ThreadPool& threads,
                                   const std::vector<bool>& which = {});

// An expanded buffer gets memory of its own where it cannot hold the values as it is.
void write_buffer(at::Tensor buffer, const at::Tensor& value);

enum class BuffersAre {
  kFirstValues,  // functions have their turn; all must be written, and none with NaN
  kReplaced      // a checkpoint's will come
};

// Deferred buffers get their memory and the values that a function or their constructor
// gave them; then all are taken from rank 0, unless every rank holds the whole model.
// Error(kUsage) lists those that must not be as they are. Collective.
std::vector<InitEntry> fill_buffers(const ScannedModel& model, const Options& options,
                                    InitFunctions& functions, Ranks& ranks,
                                    BuffersAre are = BuffersAre::kFirstValues);

}  // namespace zero
