// Says what a program finds that looks for a GPU: a number, or an error and its exit
// code.
#include <cstdio>

#include "engine/device/gpu.h"
#include "zero/errors.h"

int main() {
  try {
    const int count = zero::num_gpus();
    if (count > 0) zero::make_gpu(count - 1);
    std::printf("%d\n", count);
    return 0;
  } catch (const zero::Error& error) {
    std::printf("%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
