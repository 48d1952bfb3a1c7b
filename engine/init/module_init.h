#pragma once
#include <optional>
#include <string>

#include "engine/init/init_spec.h"

namespace torch::nn {
class Module;
}

namespace zero {

// How torch's own layers (Linear, Bilinear, Embedding, EmbeddingBag, Conv, ConvTranspose,
// LayerNorm, GroupNorm, BatchNorm, InstanceNorm) initialise their parameter `name`, as an
// InitSpec. Nothing for other modules.
std::optional<InitSpec> default_init(const torch::nn::Module& module,
                                     const std::string& name);

}  // namespace zero
