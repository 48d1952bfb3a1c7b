#include "engine/device/host_device.h"

#include <sys/mman.h>

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "engine/errors.h"

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
    for (auto& [memory, bytes] : blocks_) std::free(memory);
  }

  DeviceKind kind() const override { return DeviceKind::kHost; }
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
    std::lock_guard lock(mutex_);
    blocks_[memory] = bytes;
    allocated_bytes_ += bytes;
    return memory;
  }

  void free(void* memory) override {
    if (!memory) return;
    std::lock_guard lock(mutex_);
    auto block = blocks_.find(memory);
    assert(block != blocks_.end() && "freed twice, or never allocated here");
    allocated_bytes_ -= block->second;
    blocks_.erase(block);
    std::free(memory);
  }

  int64_t allocated_bytes() const override {
    std::lock_guard lock(mutex_);
    return allocated_bytes_;
  }

  void poison(void* memory, int64_t bytes, Stream& stream) override {
    if (options_.chaos_seed == 0 || bytes == 0) return;
    // NaN in fp32 and bf16.
    as_host_stream(stream).enqueue([=] { std::memset(memory, 0xFF, bytes); });
  }

 private:
  const HostDeviceOptions options_;
  std::unique_ptr<HostStream> compute_;
  mutable std::mutex mutex_;
  std::map<void*, int64_t> blocks_;  // their bytes; guarded by mutex_
  int64_t allocated_bytes_ = 0;      // guarded by mutex_
};

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

}  // namespace zero
