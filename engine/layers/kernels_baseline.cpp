#include "engine/layers/kernels.h"

namespace zero {
namespace {

struct BaselineLayers {
  template <class Pass>
  static void run(const Pass& pass, int64_t begin, int64_t end) {
    pass.run(begin, end);
  }
};

}  // namespace

LayerKernels baseline_layer_kernels() {
  return layer_kernels_of<BaselineLayers>("baseline");
}

}  // namespace zero
