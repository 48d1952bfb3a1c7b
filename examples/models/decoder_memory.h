#pragma once
#include <cstdint>

#include "launcher/model.h"

namespace zero {

// What a decoder's activations follow from, beside its shape. Sizes are in elements.
struct DecoderSizes {
  double inner = 0;           // of a layer's widest activation, and its gradient
  double kept_per_token = 0;  // by a layer for its backward, dropout apart
  double weights = 0;         // of a layer
  bool is_tied = true;        // the head is the embedding
  bool masks_stream = true;   // dropout of the stream, beside that of attention
};

// Estimate ModelFamily::activation_bytes, computed on a CPU.
ActivationBytes decoder_activation_bytes(const DecoderSizes& sizes,
                                         const ModelShape& shape, const PassShape& pass);

}  // namespace zero
