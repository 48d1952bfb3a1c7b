// GPT-2's configs: defaults of model_type, presets, activations.
#include "examples/models/config_reader.h"
#include "examples/models/decoder_memory.h"
#include "examples/models/families.h"
#include "examples/models/gpt2.h"
#include "examples/models/language_model.h"

namespace zero {
namespace {

using nlohmann::json;

Gpt2Config gpt2_config(const ModelShape& shape) {
  const ConfigReader config(shape.config, "gpt2");
  Gpt2Config gpt2;
  gpt2.n_layer = config.integer("n_layer", 1, 1 << 14);
  gpt2.n_head = config.integer("n_head", 1, 1 << 16);
  gpt2.n_embd = config.integer("n_embd");
  gpt2.n_inner = config.integer_or("n_inner", 0, 1, 1 << 26);
  gpt2.n_positions = config.integer("n_positions");
  gpt2.vocab_size = config.integer("vocab_size", 1, 1 << 30);
  gpt2.layer_norm_epsilon = config.number("layer_norm_epsilon", 0, 1);
  gpt2.initializer_range = config.number("initializer_range", 0, 1e3);
  gpt2.has_tied_head = config.boolean("tie_word_embeddings");
  gpt2.dropout = shape.dropout;
  gpt2.loss_chunk = shape.loss_chunk;
  check(gpt2);
  return gpt2;
}

// What a block keeps for its backward: both norms' inputs and outputs, queries, keys,
// values and what attention makes of them, and the MLP before and after its GELU.
ActivationBytes gpt2_activation_bytes(const ModelShape& shape, const PassShape& pass) {
  const Gpt2Config config = gpt2_config(shape);
  const auto dim = static_cast<double>(config.n_embd);
  DecoderSizes sizes;
  sizes.inner = static_cast<double>(config.inner());
  sizes.kept_per_token = 8 * dim + 2 * sizes.inner;
  sizes.weights = (4 * dim + 2 * sizes.inner) * dim;
  sizes.is_tied = config.has_tied_head;
  return decoder_activation_bytes(sizes, shape, pass);
}

json preset(int64_t layers, int64_t dim, int64_t heads) {
  return {{"n_layer", layers}, {"n_embd", dim}, {"n_head", heads}};
}

json small_preset(int64_t layers, int64_t dim, int64_t heads, int64_t positions) {
  json config = preset(layers, dim, heads);
  config["vocab_size"] = nullptr;
  config["n_positions"] = positions;
  return config;
}

}  // namespace

ModelFamily gpt2_family() {
  ModelFamily family;
  family.name = "gpt2";
  family.keys = {.layers = "n_layer",
                 .dim = "n_embd",
                 .heads = "n_head",
                 .ffn_dim = "n_inner",
                 .positions = "n_positions"};
  family.learns_positions = true;
  const json must_be = {{"activation_function", {"gelu_new", "gelu_pytorch_tanh"}},
                        {"scale_attn_weights", {true}},
                        {"scale_attn_by_inverse_layer_idx", {false}},
                        {"reorder_and_upcast_attn", {false}},
                        {"add_cross_attention", {false}}};
  family.classes = {{"gpt2",
                     "GPT2LMHeadModel",
                     {{"vocab_size", 50257},
                      {"n_positions", 1024},
                      {"n_embd", 768},
                      {"n_layer", 12},
                      {"n_head", 12},
                      {"n_inner", nullptr},
                      {"layer_norm_epsilon", 1e-5},
                      {"initializer_range", 0.02},
                      {"tie_word_embeddings", true}},
                     must_be,
                     {"resid_pdrop", "embd_pdrop", "attn_pdrop"},
                     {{"hidden_size", "n_embd"},
                      {"max_position_embeddings", "n_positions"},
                      {"num_attention_heads", "n_head"},
                      {"num_hidden_layers", "n_layer"}},
                     "transformer.",
                     {"*.attn.bias", "*.attn.masked_bias"}}};
  family.presets = {{"gpt2-tiny", small_preset(3, 64, 4, 32)},
                    {"gpt2-2m", small_preset(4, 224, 4, 128)},
                    {"gpt2-10m", small_preset(6, 384, 6, 256)},
                    {"gpt2-124m", preset(12, 768, 12)},
                    {"gpt2-350m", preset(24, 1024, 16)},
                    {"gpt2-774m", preset(36, 1280, 20)},
                    {"gpt2-1.5b", preset(48, 1600, 25)}};
  family.default_preset = "gpt2-10m";
  family.resize = [](json& config) { config["n_inner"] = nullptr; };
  family.check = [](const ModelShape& shape) { gpt2_config(shape); };
  family.make = [](const ModelShape& shape) {
    return as_language_model(std::make_shared<Gpt2Impl>(gpt2_config(shape)));
  };
  family.init_rules = [](const ModelShape& shape) {
    return gpt2_init_rules(gpt2_config(shape));
  };
  family.activation_bytes = gpt2_activation_bytes;
  return family;
}

}  // namespace zero
