#include "offload/adam_kernels.h"
#include "offload/adam_loop.h"

namespace zero {

std::vector<AdamKernel> adam_kernels() {
  return {{"baseline",
           [](const AdamPiece& piece, const AdamScalars& s) { adam_sweep(piece, s); }}};
}

}  // namespace zero
