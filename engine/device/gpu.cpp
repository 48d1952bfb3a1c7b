#include "engine/device/gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/part.h"
#include "zero/errors.h"

namespace zero {
namespace {

constexpr char kDriver[] = "libcuda.so.1";
constexpr char kLibrary[] = "libzero_cuda.so";
constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE

[[noreturn]] void refuse(const std::string& what, const std::string& where,
                         const std::string& cure) {
  throw Error(ExitCode::kEnvironment, "there is a GPU, but " + what, where,
              cure + ", or --device cpu");
}

// Of a GPU that this machine lets programs see.
bool has_device_file() {
  std::error_code ignored;
  return std::filesystem::exists("/dev/nvidia0", ignored);
}

// Is there a driver that has a GPU for this process?
bool driver_has_gpu() {
  void* const driver = dlopen(kDriver, RTLD_NOW | RTLD_LOCAL);
  if (!driver) {
    const std::string reason = dlerror();
    if (!has_device_file()) return false;
    refuse("its driver cannot be loaded (" + reason + ")", "/dev/nvidia0",
           "install NVIDIA's driver, in a container let its runtime bring it (docker run "
           "--gpus all)");
  }
  // Streams share 8 connections else, and one that waits for the host holds up others.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  return !init || init(0) != kNoDevice;
}

void* load_library() {
  std::string reasons;
  void* const library = open_part(kLibrary, reasons);
  if (library) return library;
  refuse("the part of this program for GPUs cannot be loaded (" + reasons + ")", kLibrary,
         "build it with scripts/build.sh -DZERO_CUDA=ON");
}

const GpuLibrary& find_entry() {
  auto* const entry = find_in_gpu_library<decltype(zero_gpu_library)>("zero_gpu_library");
  if (!entry) refuse("that is of another program", kLibrary, "build both anew");
  return *entry();
}

void limit_to(int index, double fraction) {
  find_in_gpu_library<decltype(zero_limit_torch_memory)>("zero_limit_torch_memory")(
      index, std::clamp(fraction, 0.0, 1.0));
}

const GpuLibrary& gpu_library() {
  static const GpuLibrary& library = find_entry();
  return library;
}

int count_gpus() { return driver_has_gpu() ? gpu_library().count_devices() : 0; }

// Else LibTorch keeps blocks for tensors of other sizes than come later: a tenth of them,
// or more.
void let_torch_memory_grow() {
  if (getenv("PYTORCH_ALLOC_CONF") || getenv("PYTORCH_CUDA_ALLOC_CONF")) return;
  find_in_gpu_library<decltype(zero_let_torch_memory_grow)>(
      "zero_let_torch_memory_grow")();
}

}  // namespace

int num_gpus() {
  static const int count = count_gpus();
  return count;
}

void* find_in_gpu_library(const char* name) {
  static void* const library = load_library();
  return dlsym(library, name);
}

std::string identity_of_gpu(int index) { return gpu_library().identity_of(index); }

GpuMemory memory_of_gpu(int index) { return gpu_library().memory_of(index); }

int numa_node_of_gpu(int index) { return gpu_library().numa_node_of(index); }

std::string describe_gpu(int index) { return gpu_library().describe(index); }

void limit_torch_memory(int index, int64_t bytes) {
  limit_to(index,
           static_cast<double>(bytes) / static_cast<double>(memory_of_gpu(index).total));
}
void unlimit_torch_memory(int index) noexcept {
  try {
    limit_to(index, 1);
  } catch (const std::exception&) {
    // the GPU is gone, and with it what was limited
  }
}

TorchMemory peak_torch_memory() {
  return find_in_gpu_library<decltype(zero_peak_torch_memory)>(
      "zero_peak_torch_memory")();
}

std::unique_ptr<Device> make_gpu(int index, const GpuOptions& options) {
  const int count = num_gpus();
  if (index >= 0 && index < count) {
    Trace::set_listener(gpu_library().ranges);
    let_torch_memory_grow();
    find_in_gpu_library<decltype(zero_release_torch_memory)>(
        "zero_release_torch_memory")();
    return gpu_library().make_device(index, options);
  }
  throw Error(ExitCode::kEnvironment,
              count == 0 ? "this machine has no GPU, or CUDA_VISIBLE_DEVICES hides it"
                         : "this machine has " + std::to_string(count) + " GPUs",
              "GPU " + std::to_string(index), "--device cpu");
}

}  // namespace zero
