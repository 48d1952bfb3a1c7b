#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "engine/comm/collectives.h"
#include "engine/device/device.h"
#include "engine/plan/slot_plan.h"

namespace zero {

// What a unit sends to have its full weights gathered.
struct GatherSource {
  struct Part {
    const void* shard = nullptr;
    int64_t shard_bytes = 0;
    std::string tag;
    // Where they come in another type: the bytes of the full weights, and what makes them
    // `to` of what has come `from` somewhere else, or at the end of these bytes.
    int64_t decoded_bytes = 0;
    std::function<void(const void* from, void* to, Stream& stream)> decode = {};
    bool is_here = false;  // `decode` may read all ranks' shards where `shard` lies
  };
  int unit = -1;
  std::vector<Part> parts;
  // Asked when they are about to be read: reached when the shards have their values.
  std::function<const Event&()> ready;
  std::string name = {};  // what several parts are called
};

// Keep the full weights of a few units in device memory, in slots that are used again and
// again.
//
// A slot's contents stay valid after release until another unit needs the slot: a unit
// that comes back before that is not gathered again. Gathers run on the communication
// stream; acquire() makes the compute stream wait for the unit's own gather, and a gather
// waits for the slot's last reader. Units of one size class share its slots, which are
// chosen by the order of calls alone, so every rank chooses the same. Not thread-safe:
// the training thread alone drives it.
class GatherRing : NoCopy {
 public:
  // Units are the users of the plan.
  GatherRing(Device& device, Collectives& comm, Stream& stream, const std::string& name,
             const SlotPlan& plan);
  // Waits for readers that are still queued on the compute stream. Gathers must be over.
  ~GatherRing();

  // Start gathering if the unit has no slot and one is free; otherwise do nothing.
  void prefetch(const GatherSource& source);
  // The unit's full weights, one part behind the other. Balanced by release(); may be
  // nested.
  void* acquire(const GatherSource& source);
  // From destructors too: what fails is thrown by the next gather.
  void release(int unit) noexcept;
  // Forget all contents: the weights changed. No slot may be in use.
  void invalidate();
  // Reached when the latest gather of this unit has read the shards.
  const Event& gathered(int unit) const { return gathered_[unit]; }
  // The contents of the unit's slot, which is in use, were changed: gather them again
  // next time.
  void forget(int unit);

  int64_t num_gathers() const { return num_gathers_; }
  // Of them, what other ranks gave.
  int64_t gathered_bytes() const { return gathered_bytes_; }

 private:
  struct Slot {
    int of_class = 0;
    int64_t bytes = 0;
    void* memory = nullptr;
    int unit = -1;            // whose weights it holds
    int num_users = 0;        // acquired and not released
    bool is_awaited = false;  // prefetched, not yet acquired
    bool is_stale = false;    // no use after the last release
    int64_t last_use = 0;
    Event idle;
  };

  Slot* find(int unit);
  Slot* oldest_free(int of_class, bool may_drop_awaited);
  void gather(Slot& slot, const GatherSource& source);
  // Returns where they end.
  std::byte* gather_parts(const GatherSource& source, std::byte* full);

  Device& device_;
  Collectives& comm_;
  Stream& stream_;
  const std::vector<int> class_of_;  // of each unit
  std::vector<Event> gathered_;      // of each unit
  std::deque<Slot> slots_;           // which stay where they are
  int64_t clock_ = 0;
  int64_t num_gathers_ = 0;
  int64_t gathered_bytes_ = 0;
  std::exception_ptr failure_;  // a slot's readers are not known any more
};

}  // namespace zero
