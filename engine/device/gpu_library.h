#pragma once
#include <memory>

#include "engine/device/gpu.h"
#include "engine/watch/trace.h"

namespace zero {

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

// The first symbol that is asked for; see also find_in_gpu_library().
extern "C" const zero::GpuLibrary* zero_gpu_library();
