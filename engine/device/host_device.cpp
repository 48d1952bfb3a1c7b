#include "engine/device/host_device.h"

#include <sys/mman.h>

#include <cassert>
#include <cstdlib>

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

  void poison(void* memory, int64_t bytes, Stream& stream) override {
    if (options_.chaos_seed != 0) stream.set_bytes(memory, kNanByte, bytes);
  }

 private:
  const HostDeviceOptions options_;
  std::unique_ptr<HostStream> compute_;
  Blocks blocks_;
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
