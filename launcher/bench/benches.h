#pragma once
#include <functional>
#include <vector>

#include "launcher/bench/options.h"
#include "launcher/bench/rounds.h"
#include "launcher/model.h"

namespace zero::launcher {

class World;

// Time the update of a rank's shard, and the norm of its gradient, on this process alone.
//
// Rows "sum with norm" (the pass that completes a sum of gradients; its limit is that
// pass without the norm), "update" (AdamW on fp32 arrays, without and with a copy in
// bf16) and "update and norm" (what the norm has added to that pass, too), for 1 unit and
// 24, each of 12 tensors that have the sizes of a transformer's block, on 1, 2, 4 ... all
// threads.
std::vector<Row> bench_adam(const BenchOptions& options);

// Time a checkpoint of `options.size` bytes of masters and moments, saved and loaded by
// this process alone, against a plain file of the same bytes, written with fsync and
// read. Both are read when the system has been told to forget their pages.
//
// Everything lies in a folder of its own in `settings.out`, which goes away. Throws
// Error(kCheckpoint) when that cannot be made.
std::vector<Row> bench_checkpoint(const BenchOptions& options);

// Time copies of `options.size` bytes between pinned memory of the host and each GPU, one
// way, the other, and both at once, against memcpy. Throws Error(kEnvironment) without a
// GPU.
std::vector<Row> bench_transfer(const BenchOptions& options);

// What is measured by all ranks together: collective, the same rows on all.
using BenchOfRanks = std::function<std::vector<Row>(const World& world)>;

// Time all_gather and reduce_scatter of `options.size` bytes in all against memcpy of as
// many on each rank at once; the slowest rank counts.
BenchOfRanks bench_comm(const BenchOptions& options);

// Time training steps of all ranks against processes that do not talk, one beside each
// rank, on the same cores in turn; and alone how much of the updates hides.
//
// Starts this rank's silent processes: to be called before there is a World. Rows
// "engine" and "silent" tell tokens per second of all ranks and the peak memory of one.
// The limit of "updates queued" and "updates in step" is a step without any; "hidden" is
// how much of the time of an update in step() the queue saves. After a throw, end all
// ranks before the result goes.
BenchOfRanks bench_step(const BenchOptions& options, const ModelFamilies& models);

// Build a model under DeferredInit and give it its first values, on all ranks together,
// in an engine for inference. One row: seconds of both (medians), and what they took of
// memory on the rank that took most: "build_mib", and "beside_shards_mib" beyond its
// masters.
BenchOfRanks bench_init(const BenchOptions& options, const ModelFamilies& models);

// What settings say of a model; without data the vocabulary is that of text.
ModelShape shape_of_bench(const ModelFamily& family, const Settings& settings);

}  // namespace zero::launcher
