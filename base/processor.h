#pragma once

namespace zero {

// Has this processor what oneDNN needs for products in bf16 and fp16? Elsewhere LibTorch
// multiplies by itself.
inline bool onednn_has_16_bits() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bw");
#else
  return true;
#endif
}

}  // namespace zero
