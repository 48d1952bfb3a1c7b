#pragma once
#include <cstdint>
#include <memory>

#include "engine/device/device.h"
#include "engine/watch/trace.h"
#include "zero/gpu.h"

namespace zero {

struct GpuOptions {
  uint64_t chaos_seed = 0;   // as HostDeviceOptions: late workers, NaN in released memory
  int64_t memory_limit = 0;  // bytes that may be allocated; 0: what there is
};

// GPU `index` of num_gpus(). What LibTorch keeps of GPUs for tensors to come becomes
// free. Throws Error(kEnvironment) where there is none.
std::unique_ptr<Device> make_gpu(int index, const GpuOptions& options = {});

// A function of the library that knows GPUs, by its name in C; null if it has none such.
// Throws what num_gpus() throws.
void* find_in_gpu_library(const char* name);
template <class Function>
Function* find_in_gpu_library(const char* name) {
  return reinterpret_cast<Function*>(find_in_gpu_library(name));
}

// Let LibTorch allocate so many bytes on GPU `index` and no more: it throws
// c10::OutOfMemoryError then. For the whole process.
void limit_torch_memory(int index, int64_t bytes);
void unlimit_torch_memory(int index) noexcept;

// What LibTorch had of one GPU at most, so far, in bytes.
struct TorchMemory {
  int64_t tensors = 0;
  int64_t reserved = 0;  // from CUDA, for tensors of before and after
};
TorchMemory peak_torch_memory();

// What libzero_cuda.so offers: it is loaded only when a GPU is there, so that nobody else
// pays for CUDA's libraries.
struct GpuLibrary {
  int (*count_devices)();
  std::string (*identity_of)(int index);
  GpuMemory (*memory_of)(int index);
  int (*numa_node_of)(int index);
  std::string (*describe)(int index);
  std::unique_ptr<Device> (*make_device)(int index, const GpuOptions& options);
  const Trace::Listener* ranges;  // of profilers
};

}  // namespace zero

// The first symbol of it that is asked for.
extern "C" const zero::GpuLibrary* zero_gpu_library();
// Lets LibTorch have a fraction of the GPU's memory.
extern "C" void zero_limit_torch_memory(int index, double fraction);
// Lets its blocks there grow.
extern "C" void zero_let_torch_memory_grow();
// Gives back what it keeps for tensors to come.
extern "C" void zero_release_torch_memory();
// peak_torch_memory()
extern "C" zero::TorchMemory zero_peak_torch_memory();
