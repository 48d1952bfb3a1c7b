#include "engine/layers/kernels.h"

namespace zero {

std::vector<LayerKernels> layer_kernels() { return {baseline_layer_kernels()}; }

}  // namespace zero
