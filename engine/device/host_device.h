#pragma once
#include "engine/device/device.h"

namespace zero {

struct HostDeviceOptions {
  // 0: off. Otherwise each queued operation is delayed at random and released buffers are
  // filled with NaN: orderings that only luck made right turn red.
  uint64_t chaos_seed = 0;
  int64_t max_chaos_delay_us = 300;
  // For tests: the compute stream is a worker thread, too, and runs behind the training
  // thread as a GPU's does. A unit's body is then a function queued on it. So whoever
  // hands memory to that stream, or takes it back, must do it by events.
  //
  // Not for torch, whose functions run at once in the thread that calls them: no Engine,
  // no gradients that torch lays out, and nothing in place, where an update waits for no
  // body. A failure of the stream is not thrown to who queues, but by synchronize().
  bool async_compute = false;
};

// CPU ranks: made streams are worker threads, the compute stream is the calling thread
// itself, if not said otherwise.
std::unique_ptr<Device> make_host_device(const HostDeviceOptions& options = {});

// A worker thread that sleeps when its queue is empty. Any thread may queue. The
// destructor runs what is queued, then joins; a failure that nobody fetched is dropped.
std::unique_ptr<HostStream> make_worker_stream(const std::string& name,
                                               const HostDeviceOptions& options);

// The same stream, seen as one of the host. Throws Error(kEnvironment) if it is a GPU's.
HostStream& as_host_stream(Stream& stream);

// A stream that runs each operation at once in the calling thread: for small exchanges
// that the caller waits for.
std::unique_ptr<HostStream> make_inline_stream(const std::string& name,
                                               const HostDeviceOptions& options = {});

}  // namespace zero
