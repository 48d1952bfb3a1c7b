#pragma once

#include <memory>
#include <string>

#include "examples/models/config_reader.h"
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

// The values that all configs have, under the keys of the shape's family. Throws
// Error(kUsage) for what is not allowed.
DecoderConfig read_decoder(const ConfigReader& config, const ModelShape& shape,
                           const std::string& norm_epsilon_key);

// The width of a head. Throws Error(kUsage) where heads do not divide the stream;
// `others` may add to its cure.
int64_t read_head_dim(const ConfigReader& config, const ModelShape& shape,
                      const DecoderConfig& decoder, const std::string& others = "");

// The launcher's view of a decoder.
std::unique_ptr<LanguageModel> as_language_model(std::shared_ptr<Decoder> decoder);

// Of the parts that are there.
DecoderSizes of_stage(DecoderSizes sizes, const DecoderConfig& config);

// ModelFamily::key_value_bytes
int64_t decoder_key_value_bytes(const DecoderConfig& config, const KeyValueHeads& heads,
                                const TextsAtOnce& texts, int64_t element_bytes);

// Let a family read a shape's config, and go on from that: make(config) is a decoder,
// init_rules(config) are its first values, sizes(config, pass) are DecoderSizes.
template <class Read, class Make, class Rules, class Sizes>
void set_model(ModelFamily& family, const Read& read, const Make& make,
               const Rules& init_rules, const Sizes& sizes) {
  family.has_batched_units = family.takes_documents = family.has_parts =
      family.has_sublayers = true;
  family.check = [=](const ModelShape& shape) { read(shape); };
  family.make = [=](const ModelShape& shape) {
    return as_language_model(make(read(shape)));
  };
  family.init_rules = [=](const ModelShape& shape) { return init_rules(read(shape)); };
  family.activation_bytes = [=](const ModelShape& shape, const PassShape& pass) {
    const auto config = read(shape);
    return decoder_activation_bytes(of_stage(sizes(config, pass), config), shape, pass);
  };
  family.key_value_bytes = [=](const ModelShape& shape, const TextsAtOnce& texts,
                               int64_t element_bytes) {
    const auto config = read(shape);
    return decoder_key_value_bytes(config, key_value_heads(config), texts, element_bytes);
  };
}

}  // namespace zero
