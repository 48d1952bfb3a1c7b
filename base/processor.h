#pragma once

namespace zero {

// Has this processor what oneDNN needs for products in bf16 and fp16? Elsewhere LibTorch
// multiplies by itself.
bool onednn_has_16_bits();

}  // namespace zero
