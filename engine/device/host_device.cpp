#include "engine/device/host_device.h"

#include <sys/mman.h>

#include <cassert>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>

#include "base/hash.h"
#include "engine/device/blocks.h"
#include "zero/errors.h"

namespace zero {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kHugePage = 2 << 20;

// Large blocks start on a huge page and ask for such pages: streaming over them misses
// the TLB less often.
void* allocate_aligned(int64_t bytes) {
  const int64_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes > 0 ? bytes : 1) != 0) return nullptr;
  if (alignment == kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);  // advice only
  return memory;
}

class HostDevice final : public Device {
 public:
  explicit HostDevice(const HostDeviceOptions& options)
      : options_(options),
        compute_(options.async_compute ? make_worker_stream("compute", options)
                                       : make_inline_stream("compute", options)) {}
  ~HostDevice() override {
    compute_.reset();  // what is queued may use the memory
    for (void* memory : blocks_.left()) std::free(memory);
  }

  int gpu_index() const override { return -1; }
  std::unique_ptr<Stream> make_stream(const std::string& name) override {
    return make_worker_stream(name, options_);
  }
  std::unique_ptr<HostStream> make_worker(const std::string& name) override {
    return make_worker_stream(name, options_);
  }
  Stream& compute_stream() override { return *compute_; }

  void* allocate(const std::string& name, int64_t bytes) override {
    assert(bytes >= 0);
    void* memory = allocate_aligned(bytes);
    if (!memory) {
      throw Error(
          ExitCode::kEnvironment,
          "cannot allocate " + std::to_string(bytes) + " bytes of host memory", name,
          "use more ranks, a smaller micro-batch or a smaller model; `zero_launch plan` "
          "shows what fits");
    }
    blocks_.add(memory, name, bytes);
    return memory;
  }

  void free(void* memory) override {
    if (!memory) return;
    blocks_.remove(memory);
    std::free(memory);
  }

  int64_t allocated_bytes() const override { return blocks_.bytes(); }
  Copied copied() const override { return {}; }

  void pin(void*, int64_t) override {}
  void unpin(void*) override {}

  void decode(const Decoding& decoding, ThreadPool& threads, Stream& stream) override {
    as_host_stream(stream).enqueue(
        [decoding, &threads] { zero::decode(decoding, threads); });
  }
  uint64_t hash(const void* memory, int64_t bytes, Stream& stream) override {
    stream.synchronize();
    return hash_of(memory, bytes);
  }
  void poison(void* memory, int64_t bytes, Stream& stream) override {
    if (options_.chaos_seed != 0) stream.set_bytes(memory, kNanByte, bytes);
  }

 private:
  const HostDeviceOptions options_;
  std::unique_ptr<HostStream> compute_;
  Blocks blocks_;
};

std::atomic<bool> are_delays_set{false};
std::mutex delays_mutex;
std::map<std::string, int, std::less<>> delays_ms;  // guarded by delays_mutex

int delay_of(std::string_view name) {
  std::lock_guard lock(delays_mutex);
  auto found = delays_ms.find(name);
  return found == delays_ms.end() ? 0 : found->second;
}

}  // namespace

std::unique_ptr<Device> make_host_device(const HostDeviceOptions& options) {
  return std::make_unique<HostDevice>(options);
}

HostStream& as_host_stream(Stream& stream) {
  if (auto* host = dynamic_cast<HostStream*>(&stream)) return *host;
  throw Error(ExitCode::kEnvironment,
              "a function of the host was queued on a stream of a GPU", stream.name(),
              "queue it on a stream that a host Device made");
}

void set_delays(std::map<std::string, int> milliseconds) {
  std::lock_guard lock(delays_mutex);
  delays_ms = {milliseconds.begin(), milliseconds.end()};
  are_delays_set = !delays_ms.empty();
}

void delay_point(std::string_view name) {
  if (!are_delays_set.load(std::memory_order_relaxed)) return;
  const int delay_ms = delay_of(name);
  if (delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
}

Chaos::Chaos(uint64_t seed, const std::string& stream_name, int64_t max_delay_us)
    : seed_(seed == 0 ? 0 : splitmix(seed ^ std::hash<std::string>()(stream_name)) | 1),
      max_delay_us_(max_delay_us) {}

void Chaos::delay() {
  const int64_t delay_us = draw_us();
  if (delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
}

int64_t Chaos::draw_us() {
  if (seed_ == 0 || max_delay_us_ <= 0) return 0;
  const uint64_t draw = splitmix(seed_ + num_operations_.fetch_add(1));
  // Half of them run at once: late and early operations must meet.
  return draw & 1 ? 0 : static_cast<int64_t>((draw >> 1) % (max_delay_us_ + 1));
}

}  // namespace zero
