#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "engine/comm/collectives.h"
#include "zero/ranks.h"

namespace zero {

enum class Operation : uint8_t {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kBroadcast,
  kBarrier,
  kSplit,
  kDuplicate
};

// What a rank is about to do, in a form that ranks exchange and compare byte by byte
// before any data moves.
struct RankCall {
  uint64_t sequence;  // calls of this communicator before this one
  int64_t bytes;      // of a shard, or of the data
  uint64_t tag_hash;  // of the whole tag; `tag` may be cut
  Operation operation;
  // What else must agree: root, wire type or reduction, hashed to a byte.
  uint8_t variant;
  char tag[102];  // zero-padded
};
static_assert(sizeof(RankCall) == 128 &&
              std::has_unique_object_representations_v<RankCall>);

RankCall make_call(uint64_t sequence, Operation operation, int variant, int64_t bytes,
                   const std::string& tag);

const char* name_of(Operation operation);          // "all_gather"
std::string description_of(const RankCall& call);  // "all_gather 'blocks.4' (1024 bytes)"

// Throws Error(kDiverged), naming the first two calls that differ, unless all ranks make
// the same one.
void require_same_call(std::span<const RankCall> call_of_rank);

// A rank among others.
struct Place {
  int rank = 0, size = 1;
};

// How bytes of host memory travel among the ranks of a group, one class per backend.
//
// Calls block and run one at a time, in whatever thread. Each compares `call` among the
// ranks before it delivers anything and throws what require_same_call() throws. After a
// throw the transport is of no more use.
class Transport {
 public:
  virtual ~Transport() = default;
  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  Place local() const { return local_; }  // among the ranks of this host

  virtual void all_gather(const RankCall& call,
                          std::span<const GatheredArray> arrays) = 0;
  void all_gather(const RankCall& call, const void* shard, void* full,
                  int64_t shard_bytes) {
    const GatheredArray one{shard, full, shard_bytes};
    all_gather(call, std::span(&one, 1));
  }
  virtual void reduce_scatter(const RankCall& call, const void* full, float* shard,
                              int64_t shard_numel, DType type,
                              const SummedPiece& summed) = 0;
  virtual void broadcast(const RankCall& call, void* data, int64_t bytes, int root) = 0;
  virtual void barrier(const RankCall& call) = 0;
  virtual std::unique_ptr<Transport> split(const RankCall& call, int color) = 0;

  // Leave the group: a blocked call of this rank throws, as do, where the backend can
  // tell them, the calls of the others that need this rank. From any thread, more than
  // once.
  virtual void leave(const std::string& reason) noexcept = 0;
  // Why the lowest of the other ranks that are gone is gone; "" while all are there, as
  // far as the backend can tell. From any thread.
  virtual std::string reason_gone() const = 0;

 protected:
  Transport(Place place, Place local) : place_(place), local_(local) {}

 private:
  const Place place_, local_;
};

// Replace each value by its reduction over ranks, in adjacent-pair tree order: all ranks
// gather all values and do the same arithmetic. For the few numbers that a step agrees
// on.
template <typename T>  // int64_t or double
void reduce_values(Transport& transport, const RankCall& call, std::span<T> values,
                   ReduceOp op);

}  // namespace zero
