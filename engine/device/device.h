#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/no_copy.h"
#include "engine/device/stream_clock.h"
#include "offload/decode.h"

namespace zero {

// One place in a stream's work: pending, then reached once, for good. From any thread.
class Point : NoCopy {
 public:
  virtual ~Point() = default;
  virtual bool is_reached() const = 0;
  // Blocks the host until it is. Throws the failure of the work before it.
  virtual void wait() const = 0;
};

// A place in the work of one of the host's threads.
class HostPoint : public Point {
 public:
  // Call it once the point is reached, with the failure of the work before it, in the
  // thread that gets there; here and now if it is. It must not throw.
  using Reached = std::function<void(std::exception_ptr failure)>;
  virtual void tell(Reached reached) const = 0;
};

// What streams tell each other how far they are by, of whatever devices.
//
// A stream may record it again and again: who waits means the latest record at the time
// of the wait. An event that was never recorded counts as reached. From any thread.
class Event {
 public:
  bool query() const {
    const auto point = latest();
    return !point || point->is_reached();
  }
  void synchronize() const {  // as Point::wait()
    if (const auto point = latest()) point->wait();
  }

  // What streams do with it. Null: never recorded.
  std::shared_ptr<const Point> latest() const {
    const std::lock_guard lock(mutex_);
    return latest_;
  }
  void renew(std::shared_ptr<const Point> point) {
    const std::lock_guard lock(mutex_);
    latest_ = std::move(point);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Point> latest_;  // guarded by mutex_
};

// A queue of work that runs in order, beside the host and beside other streams.
//
// All ordering between streams is by events. Nothing here blocks the host but
// synchronize(). When an operation fails, the rest of the queue is skipped and every
// later event of the stream carries the failure, so that a waiter gets the error instead
// of hanging.
class Stream : NoCopy {
 public:
  virtual ~Stream() = default;
  virtual const std::string& name() const = 0;
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  virtual void set_bytes(void* to, int value, int64_t bytes) = 0;  // as memset()
  virtual void record(Event& event) = 0;
  // Later work of this stream starts after the event.
  virtual void wait(const Event& event) = 0;
  // When it gets there.
  virtual std::shared_ptr<const Stamp> stamp() = 0;
  // Blocks the host until the queue is empty; throws its failure.
  virtual void synchronize() = 0;
};

// Wait for its work, before memory goes away that this writes into.
inline void drain(Stream& stream) noexcept {
  try {
    stream.synchronize();
  } catch (const std::exception&) {
    // whoever waited for this work has been told already
  }
}

// A stream of the host: any function can be queued on it.
class HostStream : public Stream {
 public:
  virtual void enqueue(std::function<void()> operation) = 0;
  void copy(void* to, const void* from, int64_t bytes) final;
  void set_bytes(void* to, int value, int64_t bytes) final;
};

// Where units are computed: makes streams and memory.
//
// compute_stream() is the stream in which the training thread's own work runs: on the
// host the training thread itself (a wait blocks it), on a GPU the current CUDA stream (a
// wait blocks the GPU only).
class Device : NoCopy {
 public:
  virtual ~Device() = default;
  // Which of num_gpus() it is, and units' tensors are on; -1: it is the host.
  virtual int gpu_index() const = 0;
  // Is its memory another than the host's? Then copies bring shards in and gradients out.
  bool has_own_memory() const { return gpu_index() >= 0; }
  virtual std::unique_ptr<Stream> make_stream(const std::string& name) = 0;
  // A thread of the host that works beside the device, and waits for its events.
  virtual std::unique_ptr<HostStream> make_worker(const std::string& name) = 0;
  virtual Stream& compute_stream() = 0;

  // Memory on the device, 64-byte aligned, counted under `name` until freed. Throws
  // Error(kEnvironment).
  virtual void* allocate(const std::string& name, int64_t bytes) = 0;
  virtual void free(void* memory) = 0;
  virtual int64_t allocated_bytes() const = 0;

  // What streams were given to copy between memory of allocate() and the host's, in bytes
  // so far; nothing where that is the same.
  struct Copied {
    int64_t in = 0, out = 0;
  };
  virtual Copied copied() const = 0;

  // Of what its streams and workers are at; and what one is at until the scope ends.
  StreamClock& clock() { return clock_; }
  StreamClock::Span timed(Stream& stream, Work work, std::string_view what,
                          std::string_view whom = {}) {
    return {clock_, stream, work, what, whom};
  }

  // Lets streams of the device copy from and to this memory of the host without the
  // host's help, until unpin(). Copies of other memory of the host may wait for it.
  virtual void pin(void* memory, int64_t bytes) = 0;
  virtual void unpin(void* memory) = 0;

  // Of which NaN in fp32, bf16 and fp16 is made.
  static constexpr int kNanByte = 0xFF;
  // Tells that the contents of a buffer are no longer valid: in chaos mode fills it with
  // NaN, so that a late reader is noticed; otherwise does nothing.
  virtual void poison(void* memory, int64_t bytes, Stream& stream) = 0;

  // What decode() of offload/ does, queued on one of its streams, of memory that this
  // reaches. Where that is the host's, it takes these threads, which outlive the work.
  virtual void decode(const Decoding& decoding, ThreadPool& threads, Stream& stream) = 0;

  // A number that tells what the stream's work has left there, an even number of bytes,
  // from other values in the same place. Blocks the host until that is done.
  virtual uint64_t hash(const void* memory, int64_t bytes, Stream& stream) = 0;

 private:
  StreamClock clock_;
};

// Memory of the host that is pinned for a device as long as this lives.
class Pinned : NoCopy {
 public:
  Pinned(Device& device, void* memory, int64_t bytes)
      : device_(device), memory_(bytes > 0 ? memory : nullptr) {
    if (memory_) device_.pin(memory_, bytes);
  }
  ~Pinned() {
    if (memory_) device_.unpin(memory_);
  }

 private:
  Device& device_;
  void* const memory_;
};

}  // namespace zero
