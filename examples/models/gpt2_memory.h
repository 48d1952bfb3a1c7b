#pragma once
#include <cstdint>

#include "launcher/model.h"

namespace zero {

// Estimate ModelFamily::activation_bytes for GPT-2, computed on a CPU.
ActivationBytes gpt2_activation_bytes(const ModelShape& shape, const PassShape& pass);

}  // namespace zero
