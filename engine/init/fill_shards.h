#pragma once
#include "engine/comm/ranks.h"
#include "engine/model_scan.h"
#include "engine/options.h"
#include "engine/shard_store.h"
#include "offload/thread_pool.h"

namespace zero {

// Give masters their first values, each rank only its own slices.
//
// Deferred parameters follow Options::init, else what torch's own layers (Linear,
// Bilinear, Embedding, EmbeddingBag, Conv, ConvTranspose, LayerNorm, GroupNorm,
// BatchNorm, InstanceNorm) do; one without either is an error that lists every such FQN.
// Parameters with memory are taken from rank 0, so that all ranks start the same.
// Deferred buffers get their memory and the values their constructor gave them; others
// are taken from rank 0.
void fill_shards(const ScannedModel& model, const UnitPlan& plan, const Options& options,
                 ShardStore& shards, Ranks& ranks, ThreadPool& threads);

}  // namespace zero
