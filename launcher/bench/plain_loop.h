#pragma once
#include <functional>
#include <memory>
#include <string>

#include "launcher/data/batches.h"
#include "launcher/model.h"

namespace zero::launcher {

// One training step on a batch, as a user of LibTorch writes it: the whole module, no
// engine.
//
// Weights and activations are of `dtype`; no loss is scaled. Without an optimizer:
// forward and backward alone. With it: torch's AdamW on fp32 masters behind torch's
// clipping; 16-bit weights are copies, made anew after every step.
using PlainStep = std::function<void(const Batch& batch)>;
PlainStep make_plain_step(std::unique_ptr<Model> model, const std::string& dtype,
                          bool with_optimizer);

}  // namespace zero::launcher
