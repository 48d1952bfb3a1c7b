#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/dtype.h"

namespace zero {

class Channel;
class Device;
class Ranks;
class Stream;

// In which order ranks' values are added up. Tree: adjacent pairs, ((0+1)+(2+3))+...: the
// same bits in every run and on every backend. Any: as is fastest.
enum class SumOrder { kTree, kAny };

// Told that elements [begin, end) of a shard hold their sums, while these are at hand: in
// order, each once, `begin` a multiple of 64.
using SummedPiece = std::function<void(int64_t begin, int64_t end)>;

// One of those that are gathered together: full (size * shard_bytes) = the shards of all
// ranks in rank order. `shard` may lie in its own place in `full`.
struct GatheredArray {
  const void* shard = nullptr;
  void* full = nullptr;
  int64_t shard_bytes = 0;
};

int64_t bytes_of_shards(std::span<const GatheredArray> arrays);

// Bulk collectives among the ranks of a group: a `full` array is memory of the device
// that the streams belong to, a `shard` is the host's, pinned if the device is a GPU.
//
// Every call returns at once (on an inline stream: when done); buffers must stay valid
// and untouched until an event recorded after the call has completed. All ranks make the
// same calls in the same order, and they run in that order, on whatever streams. `tag`
// names what travels (a unit's FQN): ranks whose next calls differ in operation, tag or
// size get an Error(kDiverged) that names both, never a hang and never foreign data.
//
// A group starts as Ranks; a backend needs no more of them than to find its peers. Not
// thread-safe: one thread queues. The destructor leaves the group: calls still queued
// fail.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // All of them as one call, or one.
  virtual void all_gather(std::span<const GatheredArray> arrays, const std::string& tag,
                          Stream& stream) = 0;
  void all_gather(const void* shard, void* full, int64_t shard_bytes,
                  const std::string& tag, Stream& stream) {
    const GatheredArray one{shard, full, shard_bytes};
    all_gather(std::span(&one, 1), tag, stream);
  }

  // shard (shard_numel) fp32 = element-wise sum over ranks of their r-th part of full
  // (size * shard_numel), whose contents are gone then. `type` is that of full, kFp32 or
  // kBf16; sums are fp32.
  // `summed`, if given, is called in the stream.
  virtual void reduce_scatter(void* full, float* shard, int64_t shard_numel, DType type,
                              SumOrder order, const std::string& tag, Stream& stream,
                              const SummedPiece& summed = {}) = 0;

  // Each value = its sum over ranks. For the few numbers that must keep their place among
  // the bulk.
  virtual void all_reduce(std::span<double> values, SumOrder order,
                          const std::string& tag, Stream& stream) = 0;
};

// Of one rank, over memory of any device and of the host: a gather is a copy, and there
// is nothing to reduce, which throws.
std::unique_ptr<Collectives> make_lone_collectives();

// Over memory of the host and on its streams; all sums are trees.
std::unique_ptr<Collectives> make_host_collectives(std::unique_ptr<Channel> channel);

// Over a GPU's memory, by way of the host's: what the ranks exchange passes through
// `memory`, which is pinned and outlives this. It holds 512 bytes for each rank, or more.
std::unique_ptr<Collectives> make_staged_collectives(std::unique_ptr<Collectives> host,
                                                     Device& device,
                                                     std::span<std::byte> memory);

// Has the library for GPUs been built with NCCL? Only where there is a GPU.
bool has_nccl();
// May several ranks use one GPU with it? NCCL 2.30 or later, where the environment has
// NCCL_MULTI_RANK_GPU_ENABLE=1.
bool nccl_shares_gpus();

// Over the memory of GPUs, one for each rank, by NCCL: `gpu` is this rank's, which
// outlives this, as do the `exchange_bytes` of its memory at `exchange`. Reductions in
// tree order or of bf16 pass through them: 512 bytes for each rank, or more; others need
// none. Collective: all ranks throw if one cannot. Error(kEnvironment).
//
// Ranks compare their calls through the host's memory, for which NCCL's work waits. Where
// they differ that work is cut short, and whoever waits for it gets the Error. What NCCL
// finds out later, such as a rank that is gone, ends the communicator, too: every waiter
// gets an Error that names the call and what the rank was doing.
std::unique_ptr<Collectives> make_nccl_collectives(Ranks& ranks, Device& gpu,
                                                   void* exchange,
                                                   int64_t exchange_bytes);

}  // namespace zero

// What libzero_cuda.so offers for it where it was built with NCCL; the caller owns the
// result.
extern "C" zero::Collectives* zero_make_nccl_collectives(zero::Ranks& ranks,
                                                         zero::Device& gpu,
                                                         void* exchange,
                                                         int64_t exchange_bytes);
extern "C" bool zero_nccl_shares_gpus();
