#include "examples/models/gpt2.h"

#include <cmath>

#include "examples/models/config_reader.h"
#include "examples/models/decoder.h"
#include "examples/models/families.h"
#include "zero/errors.h"

namespace zero {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

nn::LayerNorm layer_norm(const Gpt2Config& config) {
  return nn::LayerNorm(
      nn::LayerNormOptions({config.n_embd}).eps(config.layer_norm_epsilon));
}

DecoderEnds ends_of(const Gpt2Config& config) {
  return {.vocab = config.vocab_size,
          .dim = config.n_embd,
          .are_tied = config.has_tied_head,
          .loss_chunk = config.loss_chunk};
}

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

Conv1DImpl::Conv1DImpl(int64_t in, int64_t out) {
  weight = register_parameter("weight", torch::empty({in, out}).normal_(0, 0.02));
  bias = register_parameter("bias", torch::zeros({out}));
}

at::Tensor Conv1DImpl::forward(const at::Tensor& x) {
  std::vector<int64_t> shape = x.sizes().vec();
  const at::Tensor rows = x.reshape({-1, shape.back()});
  shape.back() = weight.size(1);
  return torch::addmm(bias, rows, weight).view(shape);
}

Gpt2AttentionImpl::Gpt2AttentionImpl(const Gpt2Config& config)
    : num_heads_(config.n_head), dropout_(config.dropout) {
  c_attn = register_module("c_attn", Conv1D(config.n_embd, 3 * config.n_embd));
  c_proj = register_module("c_proj", Conv1D(config.n_embd, config.n_embd));
  resid_dropout = register_module("resid_dropout", nn::Dropout(config.dropout));
}

at::Tensor Gpt2AttentionImpl::forward(const at::Tensor& x) {
  const std::vector<at::Tensor> qkv = c_attn(x).split(x.size(2), 2);
  const auto heads = [&](const at::Tensor& t) { return split_heads(t, num_heads_); };
  return resid_dropout(c_proj(attend(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), {},
                                     is_training() ? dropout_ : 0.0)));
}

Gpt2MlpImpl::Gpt2MlpImpl(const Gpt2Config& config) {
  c_fc = register_module("c_fc", Conv1D(config.n_embd, config.inner()));
  c_proj = register_module("c_proj", Conv1D(config.inner(), config.n_embd));
  dropout = register_module("dropout", nn::Dropout(config.dropout));
}

at::Tensor Gpt2MlpImpl::forward(const at::Tensor& x) {
  return dropout(c_proj(F::gelu(c_fc(x), F::GELUFuncOptions().approximate("tanh"))));
}

Gpt2BlockImpl::Gpt2BlockImpl(const Gpt2Config& config) {
  ln_1 = register_module("ln_1", layer_norm(config));
  attn = register_module("attn", Gpt2Attention(config));
  ln_2 = register_module("ln_2", layer_norm(config));
  mlp = register_module("mlp", Gpt2Mlp(config));
}

at::Tensor Gpt2BlockImpl::forward(at::Tensor x) {
  x = x + attn(ln_1(x));
  return x + mlp(ln_2(x));
}

Gpt2TransformerImpl::Gpt2TransformerImpl(const Gpt2Config& config) {
  wte = make_embedding(ends_of(config));
  register_module("wte", wte.ptr());
  wpe = register_module("wpe", nn::Embedding(config.n_positions, config.n_embd));
  drop = register_module("drop", nn::Dropout(config.dropout));
  h = register_module(
      "h", UnitList<Gpt2BlockImpl>(std::make_shared<UnitListImpl<Gpt2BlockImpl>>()));
  for (int64_t i = 0; i < config.n_layer; ++i) h->push_back(Unit<Gpt2BlockImpl>(config));
  ln_f = register_module("ln_f", layer_norm(config));
}

at::Tensor Gpt2TransformerImpl::forward(const at::Tensor& tokens) {
  const at::Tensor positions = torch::arange(tokens.size(1), tokens.options());
  at::Tensor x = drop(wte(tokens) + wpe(positions));
  for (auto& block : *h) x = block.value()(x);
  return ln_f(x);
}

Gpt2Impl::Gpt2Impl(const Gpt2Config& config) {
  check(config);
  transformer = register_module("transformer", Gpt2Transformer(config));
  head_ = make_head(ends_of(config), transformer->wte);
  register_module("lm_head", head_.ptr());
}

InitRules gpt2_init_rules(const Gpt2Config& config) {
  const double std = config.initializer_range;
  const double residual_std = std / std::sqrt(2.0 * static_cast<double>(config.n_layer));
  return {{"*.ln_?.weight", ones()},
          {"*.bias", zeros()},
          {"*.c_proj.weight", normal(0, residual_std)},
          {"*", normal(0, std)}};
}

void check(const Gpt2Config& config) {
  const auto require = [](bool holds, const std::string& what, const std::string& cure) {
    if (!holds) throw Error(ExitCode::kUsage, what, "model gpt2", cure);
  };
  require(config.n_layer > 0 && config.n_head > 0 && config.n_embd > 0 &&
              config.vocab_size > 0 && config.n_positions > 0,
          "layers, heads, dim, vocabulary and sequence length must be positive",
          "see --layers, --heads, --dim, --vocab, --seq-len");
  require(config.n_embd % config.n_head == 0,
          "dim " + std::to_string(config.n_embd) + " does not divide into " +
              std::to_string(config.n_head) + " heads",
          "--dim: a multiple of --heads");
  require(config.loss_chunk >= 0, "a negative loss_chunk", "--loss-chunk: 0 or more");
}

// GPT-2's configs: defaults of model_type, presets, activations.

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
