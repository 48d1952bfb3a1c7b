#pragma once

#include <memory>

#include "examples/models/decoder.h"
#include "launcher/model.h"

namespace zero {

// The models that --model of zero_launch can name.
ModelFamily gpt2_family();
ModelFamily llama_family();
ModelFamily gptj_family();
ModelFamily gpt_neox_family();

// All of them, the first being what --model takes when it is not given.
ModelFamilies example_families();

// The launcher's view of a decoder.
std::unique_ptr<LanguageModel> as_language_model(std::shared_ptr<Decoder> decoder);

}  // namespace zero
