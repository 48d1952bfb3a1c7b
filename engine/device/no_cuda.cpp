#include "engine/device/device.h"
#include "engine/errors.h"

namespace zero {

std::unique_ptr<Device> make_cuda_device(int index) {
  throw Error(ExitCode::kEnvironment, "this program was built without CUDA",
              "GPU " + std::to_string(index),
              "--device cpu, or build on a machine that has the CUDA toolkit (nvcc)");
}

int num_cuda_devices() { return 0; }

}  // namespace zero
