#include "offload/adam_loop.h"
#include "offload/kernels.h"
#include "offload/leaf_loop.h"

namespace zero {

std::vector<Kernels> kernels() {
  return {{"baseline",
           [](const AdamPiece& piece, const AdamScalars& s) { adam_sweep(piece, s); },
           [](const float* values, int64_t num_leaves, double* sums) {
             leaf_squares(values, num_leaves, sums);
           }}};
}

}  // namespace zero
