#include "engine/device/inline_stream.h"

#include <cstring>

#include "engine/device/host_event.h"

namespace zero {

InlineStream::InlineStream(std::string name, const HostDeviceOptions& options)
    : name_(std::move(name)),
      chaos_(options.chaos_seed, name_, options.max_chaos_delay_us) {}

void InlineStream::enqueue(std::function<void()> operation) {
  chaos_.delay();
  operation();
}

void InlineStream::copy(void* to, const void* from, int64_t bytes) {
  chaos_.delay();
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void InlineStream::record(Event& event) {
  as_host_event(event).renew()->complete(nullptr);
}

void InlineStream::wait(const Event& event) {
  chaos_.delay();
  as_host_event(event).synchronize();
}

std::unique_ptr<HostStream> make_inline_stream(const std::string& name) {
  return std::make_unique<InlineStream>(name);
}

}  // namespace zero
