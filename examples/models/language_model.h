#pragma once
#include <memory>

#include "examples/models/decoder.h"
#include "launcher/model.h"

namespace zero {

// The launcher's view of a decoder.
std::unique_ptr<LanguageModel> as_language_model(std::shared_ptr<Decoder> decoder);

}  // namespace zero
