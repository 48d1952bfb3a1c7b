// The way into libzero_cuda.so.
#include "engine/device/cuda/cuda_device.h"
#include "engine/device/gpu_library.h"

extern "C" const zero::GpuLibrary* zero_gpu_library() {
  static const zero::GpuLibrary library{zero::DeviceKind::kCuda,
                                        &zero::count_cuda_devices,
                                        [](int index, const zero::GpuOptions& options) {
                                          return zero::make_cuda_device(index, options);
                                        }};
  return &library;
}
