#include "base/processor.h"

namespace zero {

bool onednn_has_16_bits() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bw");
#else
  return true;
#endif
}

}  // namespace zero
