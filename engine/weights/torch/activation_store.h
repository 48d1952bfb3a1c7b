#pragma once
#include <torch/torch.h>

#include <deque>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/device/device.h"
#include "offload/host_arena.h"
#include "zero/options.h"
#include "zero/reports.h"

namespace zero {

// Keep the inputs of unit calls in pinned memory of the host from their forward to their
// backward, for a device with memory of its own.
//
// Inputs go out in a stream of their own. They stay on the device as well until
// kNumResidentCalls later calls have come, or their backward did. Others come back in
// another stream: those of the call whose backward runs, and of the call before it, which
// is next. The host waits for nothing; a tensor's memory is let go behind an event that
// the compute stream waits for. A tensor that consecutive calls share is copied once.
//
// Memory of the host is pinned block by block as it is needed, and used again from then
// on. From any thread, one call at a time: autograd lets go of graphs in its own.
class ActivationStore : public std::enable_shared_from_this<ActivationStore> {
 private:
  struct Copy;

 public:
  // Some inputs of one call. When it goes, their memory is free for others.
  class Call : NoCopy {
   public:
    ~Call();

    // Does input `i` go out? The others stay with the caller.
    bool has(size_t i) const { return entries_[i].copy != nullptr; }
    // Input `i` of those, on the device, once fetch() was called.
    at::Tensor tensor(size_t i) const;
    // The compute stream waits for the inputs; those of the call before start to come
    // back.
    void fetch();
    // Not needed on the device until the next fetch().
    void put_away();

   private:
    friend class ActivationStore;
    Call(std::shared_ptr<ActivationStore> store, int64_t number, int64_t weights_version);

    struct Entry {
      std::shared_ptr<Copy> copy;
      bool is_on_device = false;  // on this call's account
    };

    const std::shared_ptr<ActivationStore> store_;
    const int64_t number_, weights_version_;
    std::vector<Entry> entries_;  // of each input
  };

  // `options`: offload_min_bytes. The device must outlive close().
  ActivationStore(Device& device, const Options& options);
  ~ActivationStore();

  // Tells, by an event, that what is queued on the compute stream until now makes inputs.
  void record(Event& event) { compute_.record(event); }

  // Inputs, which have their values at `ready`, of a call in a graph of these weights.
  // Null if all of them stay: what is small, not on the device, not one stretch of
  // memory, or a parameter.
  std::unique_ptr<Call> offload(const std::vector<at::Tensor>& inputs, const Event& ready,
                                int64_t weights_version);

  // Waits for copies that run and gives all memory back: the engine goes. Calls that are
  // still there must not be fetched.
  void close();

  OffloadedBytes bytes() const;

 private:
  // One stretch of pinned memory, of one tensor at a time.
  struct Block {
    Block(Device& device, int64_t bytes);
    HostArena arena;
    Pinned pinned;
    Event moved;  // the last copy from or to it is done
  };

  bool may_go_out(const at::Tensor& input) const;
  std::shared_ptr<Copy> shared_copy(const at::Tensor& input) const;
  Block& take_block(int64_t bytes);
  void copy_out(Copy& copy, const at::Tensor& input, const Event& ready);
  void copy_back(Copy& copy);
  void bring_back(Call& call);
  void leave_device(Call& call) noexcept;
  void forget(Call& call) noexcept;
  void throw_failure() const;

  Device& device_;
  Stream& compute_;
  const int64_t min_bytes_;
  mutable std::mutex mutex_;
  // Guarded by mutex_, as are all calls and copies:
  std::unique_ptr<Stream> out_, back_;   // null: closed
  std::deque<Block> blocks_;             // which stay where they are
  std::multimap<int64_t, Block*> free_;  // by size
  std::map<int64_t, Call*> calls_;       // by number, which grows with each call
  std::list<Call*> resident_;            // on the device since their forward
  int64_t next_number_ = 0;
  OffloadedBytes bytes_;
  std::exception_ptr failure_;  // memory was let go, and nobody knows who reads it
};

}  // namespace zero
