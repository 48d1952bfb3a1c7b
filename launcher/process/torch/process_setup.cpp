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
#include "launcher/process/kept_memory.h"
#include "launcher/process/process.h"
#include "launcher/process/world.h"
#include "launcher/run/console.h"
#include "launcher/settings/values.h"
#include "offload/host_arena.h"

namespace zero::launcher {
namespace {

// Small tensors come from where torch takes them, large ones from memory that is kept.
class TensorAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const auto size = static_cast<int64_t>(bytes);
    void* memory = bytes < kLarge ? nullptr : large_.lend(size);
    if (memory) {
      count(KeptMemory::bytes_of(size));
    } else {
      memory = small_.raw_allocate(bytes);
      count(static_cast<int64_t>(::malloc_usable_size(memory)));
    }
    return {memory, memory, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }

  static TensorAllocator& instance() {
    // Tensors may go after all else has.
    static auto* allocator = new TensorAllocator;
    return *allocator;
  }

 private:
  static constexpr size_t kLarge = 64 << 10;

  static void release(void* memory) {
    TensorAllocator& here = instance();
    if (here.large_.has(memory))
      return here.count(-here.large_.take_back(static_cast<std::byte*>(memory)));
    here.count(-static_cast<int64_t>(::malloc_usable_size(memory)));
    here.small_.raw_deallocate(memory);
  }
  void count(int64_t bytes) {
    const int64_t now = live_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    int64_t before = peak_.load(std::memory_order_relaxed);
    while (before < now && !peak_.compare_exchange_weak(before, now)) {
    }
  }

  c10::Allocator& small_ = *c10::GetDefaultCPUAllocator();
  KeptMemory large_{4 * sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE)};
  std::atomic<int64_t> live_{0}, peak_{0};
};

}  // namespace

void set_threads(int num_threads) { at::set_num_threads(num_threads); }

void try_product(const Product& largest) {
  // Larger ones take no more.
  const int64_t rows = std::min<int64_t>(largest.rows, 512 * at::get_num_threads()),
                depth = std::min<int64_t>(largest.depth, 512),
                width = std::min<int64_t>(largest.width, 8192);
  if (rows * depth * width == 0) return;
  constexpr int64_t kAligned = 64;
  HostArena arena("a product",
                  (rows * depth + depth * width + rows * width) * 4 + 3 * kAligned);
  const auto matrix = [&](int64_t height, int64_t columns) {
    float* const values = arena.allocate_array<float>("a matrix", height * columns);
    return at::from_blob(values, {height, columns});
  };
  const at::Tensor left = matrix(rows, depth), right = matrix(width, depth);
  at::Tensor product = matrix(rows, width);
  at::mm_out(product, left, right.t());
}

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
  c10::SetCPUAllocator(&TensorAllocator::instance(), kAboveTheDefault);
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

int64_t peak_tensor_bytes() { return TensorAllocator::instance().peak(); }

}  // namespace zero::launcher
