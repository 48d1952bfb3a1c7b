#include "offload/kernels.h"

namespace zero {

std::vector<Kernels> kernels() { return {baseline_kernels()}; }

}  // namespace zero
