#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/comm/call.h"
#include "engine/comm/collectives.h"
#include "zero/ranks.h"

namespace zero {

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

  virtual void all_gather(const Call& call, const void* shard, void* full,
                          int64_t shard_bytes) = 0;
  virtual void reduce_scatter(const Call& call, const void* full, float* shard,
                              int64_t shard_numel, DType type,
                              const SummedPiece& summed) = 0;
  virtual void broadcast(const Call& call, void* data, int64_t bytes, int root) = 0;
  virtual void barrier(const Call& call) = 0;
  virtual std::unique_ptr<Transport> split(const Call& call, int color) = 0;

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
void reduce_values(Transport& transport, const Call& call, std::span<T> values,
                   ReduceOp op);

}  // namespace zero
