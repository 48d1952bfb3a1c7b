// Says what a program finds that looks for a GPU: a number and what cuBLAS and CUDA will
// be told, or an error and its exit code.
#include <cstdio>
#include <cstdlib>

#include "engine/device/gpu.h"
#include "zero/errors.h"

int main() {
  try {
    const int count = zero::num_gpus();
    if (count > 0) zero::make_gpu(count - 1);
    std::printf("%d", count);
    for (const char* name : {"CUBLAS_WORKSPACE_CONFIG", "CUDA_DEVICE_MAX_CONNECTIONS"}) {
      const char* const value = std::getenv(name);
      std::printf(" %s", value ? value : "unset");
    }
    std::printf("\n");
    return 0;
  } catch (const zero::Error& error) {
    std::printf("%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
