#include "launcher/process/kernel_caches.h"

#include <cstdlib>
#include <string>

#include "base/processor.h"

namespace zero::launcher {
namespace {

// A mixture of experts in bf16 holds up to 122 MiB with caches of 128.
constexpr int64_t kKernelBytes = 1 << 20;

// The families that are here make 15 to 20, evaluations included.
constexpr int64_t kNumOfFixedShapes = 32;

}  // namespace

void bound_kernel_caches() {
  const std::string number = std::to_string(kNumKeptKernels);
  setenv("LRU_CACHE_CAPACITY", number.c_str(), /*overwrite=*/0);
  if (!std::getenv("DNNL_PRIMITIVE_CACHE_CAPACITY"))  // its older name
    setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", number.c_str(), /*overwrite=*/0);
}

int64_t kernel_cache_bytes(int64_t element_bytes, bool has_growing_shapes) {
  if (element_bytes != 2 || !onednn_has_16_bits()) return 0;
  return (has_growing_shapes ? kNumKeptKernels : kNumOfFixedShapes) * kKernelBytes;
}

}  // namespace zero::launcher
