#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launcher/bench/rounds.h"
#include "launcher/model.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

class World;

// What `zero_launch bench KIND` takes: some settings of `train`, with defaults of its
// own, and two flags that no other verb has, --rounds and --size.
struct BenchKind {
  std::string name, summary;
  std::vector<std::string> settings = {};  // keys of those that it uses
  Settings defaults = {};
  int64_t default_rounds = 0;
  std::string size_help = {};  // what --size means here; empty: it takes none
  int64_t default_size = 0;    // bytes

  bool takes(const std::string& setting) const;
};

// adam, layer, step, init, comm, checkpoint, saves, transfer.
const std::vector<BenchKind>& bench_kinds();

// What one kind is told.
struct BenchOptions {
  Settings settings;
  int64_t rounds = 0;  // medians of so many
  int64_t size = 0;    // bytes; 0 where the kind has none
};

// The kind that the command line names. Throws Error(kUsage) when there is none such.
const BenchKind& find_bench_kind(const CommandLine& line);

// Throws one Error(kUsage) that tells all that is wrong: flags that this kind does not
// use, values that are not allowed.
BenchOptions read_bench_options(const BenchKind& kind, const CommandLine& line,
                                const std::vector<std::string>& environment,
                                const ModelFamilies& models);

// The page of `zero_launch bench --help`.
std::string bench_help();

// ---- the kinds

// Time the update of a rank's shard, and the norm of its gradient, on this process alone.
//
// Rows "sum with norm" (the pass that completes a sum of gradients; its limit is that
// pass without the norm), "update" (AdamW on fp32 arrays, without and with a copy in
// bf16) and "update and norm" (what the norm has added to that pass, too), for 1 unit and
// 24, each of 12 tensors that have the sizes of a transformer's block, on 1, 2, 4 ... all
// threads.
std::vector<Row> bench_adam(const BenchOptions& options);

// Time each function of zero/layers.h, forward and backward, in fp32 and bf16, in turn
// with its expression of LibTorch ("eager_seconds"). The limit is memory: what a sum of
// two arrays into fresh memory takes for the bytes that the function must read and write.
std::vector<Row> bench_layer(const BenchOptions& options);

// Time copies of `options.size` bytes between pinned memory of the host and each GPU, one
// way, the other, and both at once, against memcpy. Throws Error(kEnvironment) without a
// GPU.
std::vector<Row> bench_transfer(const BenchOptions& options);

// What follows is measured by all ranks together: collective, the same rows on all.

// Time all_gather and reduce_scatter of `options.size` bytes in all against memcpy of as
// many on each rank at once; the slowest rank counts.
std::vector<Row> bench_comm(const BenchOptions& options, const World& world);

// Time a checkpoint of `options.size` bytes of masters and moments of all ranks: saved,
// loaded by the same ranks, and, where they are several, one of a single rank loaded by
// them, else verified. The limit is a plain file of each rank, as large as its part:
// written with fsync, or read with one call; of reads through the system's cache and past
// it the faster one. "cold": the system was told to forget their pages before; "warm":
// they were read before. The slowest rank counts.
//
// Everything lies in a folder of its own in `settings.out`, which goes away. Throws
// Error(kCheckpoint) when that cannot be made.
std::vector<Row> bench_checkpoint(const BenchOptions& options, const World& world);

// Time training steps of all ranks against processes that do not talk, one beside each
// rank, on the same cores in turn; and alone how much of the updates hides.
//
// Starts this rank's silent processes: to be called before there is a World. Rows
// "engine" and "silent" tell tokens per second of all ranks and the peak memory of one.
// The limit of "updates queued" and "updates in step" is a step without any; "hidden" is
// how much of the time of an update in step() the queue saves. After a throw, end all
// ranks before the result goes.
std::function<std::vector<Row>(const World& world)> bench_step(
    const BenchOptions& options, const ModelFamilies& models);

// Time checkpoints of an engine, all ranks together: saves that steps wait for, against a
// plain file of each rank with the same bytes, hashed and written with fsync by one
// thread; and steps beside a save, in turn with as many without: what training lost, and
// the seconds that a rank's thread has computed, beside those of that plain thread.
std::vector<Row> bench_saves(const BenchOptions& options, const ModelFamilies& models,
                             const World& world);

// Build a model under DeferredInit and give it its first values, on all ranks together,
// in an engine for inference. One row: seconds of both (medians), and what they took of
// memory on the rank that took most: "build_mib", and "beside_shards_mib" beyond its
// masters.
std::vector<Row> bench_init(const BenchOptions& options, const ModelFamilies& models,
                            const World& world);

// What settings say of a model; without data the vocabulary is that of text.
ModelShape shape_of_bench(const ModelFamily& family, const Settings& settings);

}  // namespace zero::launcher
