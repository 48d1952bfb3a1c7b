#include "engine/layers/kernels.h"
#include "offload/x86.h"

namespace zero {
namespace {

struct Avx2Layers {
  template <class Pass>
  [[gnu::target("avx2")]] static void run(const Pass& pass, int64_t begin, int64_t end) {
    pass.run(begin, end);
  }
};

struct Avx512Layers {
  template <class Pass>
  [[gnu::target(ZERO_AVX512)]] static void run(const Pass& pass, int64_t begin,
                                               int64_t end) {
    pass.run(begin, end);
  }
};

}  // namespace

std::vector<LayerKernels> layer_kernels() {
  std::vector<LayerKernels> all{baseline_layer_kernels()};
  if (has_avx2()) all.push_back(layer_kernels_of<Avx2Layers>("avx2"));
  if (has_avx512()) all.push_back(layer_kernels_of<Avx512Layers>("avx512"));
  return all;
}

}  // namespace zero
