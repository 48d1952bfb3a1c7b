#include "base/dtype.h"
#include "offload/kernels_of.h"

namespace zero {
namespace {

struct Baseline {
  static void to_fp16(const float* __restrict from, uint16_t* __restrict to, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] = float_to_fp16(from[i]);
  }
  static void words(uint64_t key, int64_t first, uint32_t* words) {
    random_words(key, first, words);
  }
  template <class Loop>
  static void run(const Loop& loop) {
    loop();
  }
};

}  // namespace

Kernels baseline_kernels() { return kernels_of<Baseline>("baseline"); }

}  // namespace zero
