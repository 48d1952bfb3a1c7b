// Says what a program finds that looks for a GPU: a number and what CUDA will be told, or
// an error and its exit code.
#include <cstdio>
#include <cstdlib>

#include "engine/device/gpu.h"
#include "zero/errors.h"

int main() {
  try {
    const int count = zero::num_gpus();
    if (count > 0) zero::make_gpu(count - 1);
    const char* const connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    std::printf("%d %s\n", count, connections ? connections : "unset");
    return 0;
  } catch (const zero::Error& error) {
    std::printf("%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
