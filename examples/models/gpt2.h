#pragma once
#include <map>
#include <string>

#include "examples/models/decoder.h"
#include "zero/init_spec.h"

namespace zero {

// GPT-2 with the names, layouts and initialisation of Hugging Face's GPT2LMHeadModel: its
// files load without translation. Pre-norm blocks, learned positions, tanh GELU.
using Gpt2Config = DecoderConfig;

class Gpt2Impl : public Decoder {
 public:
  // Throws Error(kUsage) when the numbers do not fit together.
  explicit Gpt2Impl(const Gpt2Config& config);
};

// Normal(0, initializer_range); residual projections narrower by sqrt(2 n_layer); biases
// zero; norms one and zero.
InitRules gpt2_init_rules(const Gpt2Config& config);

// The words of its config.json, which are those of GPT-J's, too.
ConfigKeys gpt2_keys();
std::map<std::string, std::string> gpt2_aliases();

}  // namespace zero
