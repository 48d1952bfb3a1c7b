#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace zero {

class Stream;

enum class WireType { kFloat, kBf16 };
enum class ReduceOp { kSum, kMax, kMin };

// Collectives among the ranks of a group, queued on a stream.
//
// Every call returns at once (on an inline stream: when done); buffers must stay valid
// and untouched until an event recorded after the call has completed. All ranks call the
// same collectives in the same order. `tag` names what travels (a unit's FQN): ranks
// whose next collectives differ in operation, tag or size get an Error(kDiverged) that
// names both, never a hang and never foreign data.
//
// Not thread-safe: one thread queues, or each thread owns a duplicate().
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // full (size * shard_bytes) = the shards of all ranks in rank order. `shard` may lie in
  // its own place in `full`.
  virtual void all_gather(const void* shard, void* full, int64_t shard_bytes,
                          const std::string& tag, Stream& stream) = 0;

  // shard (shard_numel) fp32 = element-wise sum over ranks of their r-th part of full
  // (size * shard_numel). Sums are fp32 whatever the wire type, in the order of an
  // adjacent-pair tree over ranks ((0+1)+(2+3))+...: the same bits in every run and on
  // every backend.
  virtual void reduce_scatter(const void* full, float* shard, int64_t shard_numel,
                              WireType type, const std::string& tag, Stream& stream) = 0;

  virtual void all_reduce(std::span<int64_t> values, ReduceOp op, const std::string& tag,
                          Stream& stream) = 0;
  virtual void all_reduce(std::span<double> values, ReduceOp op, const std::string& tag,
                          Stream& stream) = 0;
  virtual void broadcast(void* data, int64_t bytes, int root, const std::string& tag,
                         Stream& stream) = 0;
  virtual void barrier(const std::string& tag, Stream& stream) = 0;

  // The ranks that pass the same colour, ordered by their rank here; collective.
  virtual std::unique_ptr<Communicator> split(int color) = 0;
  // The same ranks with an order of collectives of their own; collective.
  virtual std::unique_ptr<Communicator> duplicate() = 0;
};

}  // namespace zero
