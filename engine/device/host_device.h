#pragma once
#include <functional>

#include "engine/device/device.h"

namespace zero {

// A stream of the host: any function can be queued on it.
class HostStream : public Stream {
 public:
  virtual void enqueue(std::function<void()> operation) = 0;
  void copy(void* to, const void* from, int64_t bytes) final;
};

struct HostDeviceOptions {
  // 0: off. Otherwise each queued operation is delayed at random and released buffers are
  // filled with NaN: orderings that only luck made right turn red.
  uint64_t chaos_seed = 0;
  int64_t max_chaos_delay_us = 300;
};

// CPU ranks: made streams are worker threads, the compute stream is the calling thread
// itself.
std::unique_ptr<Device> make_host_device(const HostDeviceOptions& options = {});

// The same stream, seen as one of the host. Throws Error(kEnvironment) if it is a GPU's.
HostStream& as_host_stream(Stream& stream);

// A stream that runs each operation at once in the calling thread: for small exchanges
// that the caller waits for.
std::unique_ptr<HostStream> make_inline_stream(const std::string& name);

}  // namespace zero
