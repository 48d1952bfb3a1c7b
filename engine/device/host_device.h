#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

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

// Make the named points of the code slow, for tests of overlap and of races.
// Process-wide; replaces what was set before. A point costs one atomic load while nothing
// is set.
void set_delays(std::map<std::string, int> milliseconds);
void delay_point(std::string_view name);

// Delay the operations of one stream at random, so that an ordering that only luck made
// right shows.
//
// The delays are a function of seed, stream name and the operation's number. Thread-safe.
class Chaos {
 public:
  Chaos() = default;  // never delays
  Chaos(uint64_t seed, const std::string& stream_name, int64_t max_delay_us);
  void delay();
  int64_t draw_us();  // what delay() would sleep now, in microseconds; counts as it does

 private:
  uint64_t seed_ = 0;
  int64_t max_delay_us_ = 0;
  std::atomic<uint64_t> num_operations_{0};
};

}  // namespace zero
