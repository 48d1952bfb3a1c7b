#include "launcher/process/process_setup.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <utility>

#include "engine/device/gpu.h"
#include "engine/device/host_device.h"
#include "launcher/doctor/finding.h"
#include "launcher/process/process.h"
#include "launcher/process/world.h"
#include "launcher/run/console.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

// Whatever torch allocates with, and a count beside it.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator& allocator) : allocator_(allocator) {}

  c10::DataPtr allocate(size_t bytes) override {
    void* memory = allocator_.raw_allocate(bytes);
    count_up(static_cast<int64_t>(::malloc_usable_size(memory)));
    return {memory, memory, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }

  static CountingAllocator& instance() {
    // Tensors may go after all else has.
    static auto* counter = new CountingAllocator(*c10::GetDefaultCPUAllocator());
    return *counter;
  }

 private:
  static void release(void* memory) {
    CountingAllocator& counter = instance();
    counter.live_.fetch_sub(static_cast<int64_t>(::malloc_usable_size(memory)),
                            std::memory_order_relaxed);
    counter.allocator_.raw_deallocate(memory);
  }
  void count_up(int64_t bytes) {
    const int64_t now = live_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    int64_t before = peak_.load(std::memory_order_relaxed);
    while (before < now && !peak_.compare_exchange_weak(before, now)) {
    }
  }

  c10::Allocator& allocator_;
  std::atomic<int64_t> live_{0}, peak_{0};
};

}  // namespace

void set_threads(int num_threads) { at::set_num_threads(num_threads); }

ProcessSetup set_up_process(const Settings& settings, const World& world) {
  ProcessSetup setup;
  setup.cores = take_cores(world, settings.bind);
  const int by_variable = threads_of_variable(process_environment());
  setup.threads = choose_threads(static_cast<int>(settings.threads),
                                 settings.deterministic, by_variable, setup.cores.share);
  setup.are_asked_for =
      settings.threads > 0 || (by_variable > 0 && !settings.deterministic);
  const int64_t num_cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (settings.threads > num_cores && world.rank() == 0)
    warn("threads is " + std::to_string(settings.threads) + " on " +
         std::to_string(num_cores) + " cores: they take turns, which is slower");
  constexpr uint8_t kAboveTheDefault = 1;
  c10::SetCPUAllocator(&CountingAllocator::instance(), kAboveTheDefault);
  set_threads(setup.threads);
  // LibTorch looks for its part for CUDA once.
  const bool is_cpu = settings.device == "cpu" || num_gpus() == 0;
  if (is_cpu && settings.dtype == "bf16" && world.rank() == 0 && !has_bf16_instructions())
    warn(
        "bf16 on a processor without instructions for it: a step takes 3 to 11 times as "
        "long as with --dtype fp32");
  torch::manual_seed(static_cast<uint64_t>(settings.seed));
  std::map<std::string, int> delays;
  for (const std::string& delay : settings.delay) {
    const auto [point, milliseconds] = parse_delay(delay).value();
    delays[point] = milliseconds;
  }
  set_delays(std::move(delays));
  return setup;
}

int64_t peak_tensor_bytes() { return CountingAllocator::instance().peak(); }

}  // namespace zero::launcher
