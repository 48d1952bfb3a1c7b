#pragma once
#include <memory>

namespace zero {

class Device;

// The GPU `index` of this process. Throws Error(kEnvironment) where the build or the
// machine has none.
std::unique_ptr<Device> make_cuda_device(int index);
int num_cuda_devices();

}  // namespace zero
