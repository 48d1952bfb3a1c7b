#include "examples/models/gpt2.h"

#include <cmath>

#include "examples/models/config_reader.h"
#include "examples/models/decoder.h"
#include "examples/models/families.h"
#include "zero/errors.h"

namespace zero {
namespace {

namespace nn = torch::nn;

using nlohmann::json;

// y = x W + b with W (in, out), as Hugging Face's Conv1D keeps it.
class Conv1DImpl : public nn::Module, public LoraLayer {
 public:
  Conv1DImpl(int64_t in, int64_t out) {
    weight = register_parameter("weight", torch::empty({in, out}).normal_(0, 0.02));
    bias = register_parameter("bias", torch::zeros({out}));
  }
  at::Tensor forward(const at::Tensor& x) {  // (..., in) -> (..., out)
    return adapted_linear(x, weight.t(), bias);
  }
  Shape lora_shape() const override {
    return {weight.size(0), weight.size(1), /*is_transposed=*/true};
  }

 private:
  at::Tensor weight;  // (in, out)
  at::Tensor bias;    // (out)
};
TORCH_MODULE(Conv1D);

class Gpt2AttentionImpl : public nn::Module {
 public:
  explicit Gpt2AttentionImpl(const Gpt2Config& config)
      : num_heads_(config.n_head), dropout_(config.dropout) {
    c_attn = register_module("c_attn", Conv1D(config.n_embd, 3 * config.n_embd));
    c_proj = register_module("c_proj", Conv1D(config.n_embd, config.n_embd));
    resid_dropout = register_module("resid_dropout", nn::Dropout(config.dropout));
  }
  // x (B, T, C) -> (B, T, C)
  at::Tensor forward(const at::Tensor& x, const Positions& positions) {
    const std::vector<at::Tensor> qkv = c_attn(x).split(x.size(2), 2);
    const auto heads = [&](const at::Tensor& t) { return split_heads(t, num_heads_); };
    return resid_dropout(c_proj(attend(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]),
                                       positions, is_training() ? dropout_ : 0.0)));
  }

 private:
  const int64_t num_heads_;
  const double dropout_;
  Conv1D c_attn{nullptr}, c_proj{nullptr};
  nn::Dropout resid_dropout{nullptr};
};

class Gpt2BlockImpl : public nn::Module {
 public:
  explicit Gpt2BlockImpl(const Gpt2Config& config) {
    ln_1 = register_module("ln_1", LayerNorm(config.n_embd, config.norm_epsilon));
    attn = MaybeUnit<Gpt2AttentionImpl>(config.sublayers, config);
    attn.take_along(ln_1.ptr());
    register_module("attn", attn.ptr());
    ln_2 = register_module("ln_2", LayerNorm(config.n_embd, config.norm_epsilon));
    mlp = GeluMlp<Conv1D>(config.sublayers, "c_fc", "c_proj", config);
    mlp.take_along(ln_2.ptr());
    register_module("mlp", mlp.ptr());
  }
  // x (B, T, C) -> (B, T, C)
  at::Tensor forward(const at::Tensor& x, const Positions& positions) {
    const auto attention_half = [this](const at::Tensor& x, const Positions& positions) {
      return x + attn->forward(ln_1(x), positions);
    };
    const auto mlp_half = [this](const at::Tensor& x) {
      return x + mlp->forward(ln_2(x));
    };
    return mlp.run(mlp_half, attn.run(attention_half, x, marked(positions)));
  }

 private:
  LayerNorm ln_1{nullptr}, ln_2{nullptr};
  MaybeUnit<Gpt2AttentionImpl> attn;
  GeluMlp<Conv1D> mlp;
};

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

std::shared_ptr<Trunk> gpt2_trunk(const Gpt2Config& config) {
  check(config);
  return std::make_shared<TrunkOf<Gpt2BlockImpl, LayerNorm>>(kGpt2Names, config);
}

Gpt2Config gpt2_config(const ModelShape& shape) {
  const ConfigReader config(shape.config, "gpt2");
  const int64_t n_positions = config.integer("n_positions");
  Gpt2Config gpt2 = read_decoder(config, shape, "layer_norm_epsilon");
  gpt2.n_positions = n_positions;
  check(gpt2);
  return gpt2;
}

// Norms' inputs and outputs, queries, keys, values and what attention makes of them.
DecoderSizes gpt2_sizes(const Gpt2Config& config, const PassShape&) {
  DecoderSizes sizes = gelu_block_sizes(config, 6, 2);
  sizes.given_to_mlp = 1;
  return sizes;
}

json preset(int64_t layers, int64_t dim, int64_t heads) {
  return {{"n_layer", layers}, {"n_embd", dim}, {"n_head", heads}};
}

json small_preset(int64_t layers, int64_t dim, int64_t heads, int64_t positions) {
  json config = preset(layers, dim, heads);
  config.update({{"vocab_size", nullptr}, {"n_positions", positions}});
  return config;
}

}  // namespace

Gpt2Impl::Gpt2Impl(const Gpt2Config& config)
    : Decoder(kGpt2Names, config, gpt2_trunk(config)) {}

InitRules gpt2_init_rules(const Gpt2Config& config) {
  const double std = config.initializer_range;
  const double residual_std = std / std::sqrt(2.0 * static_cast<double>(config.n_layer));
  return {{"*.ln_?.weight", ones()},
          {"*.bias", zeros()},
          {"*.c_proj.weight", normal(0, residual_std)},
          {"*", normal(0, std)}};
}

ConfigKeys gpt2_keys() {
  return {.layers = "n_layer",
          .dim = "n_embd",
          .heads = "n_head",
          .ffn_dim = "n_inner",
          .positions = "n_positions"};
}

std::map<std::string, std::string> gpt2_aliases() {
  return {{"hidden_size", "n_embd"},
          {"max_position_embeddings", "n_positions"},
          {"num_attention_heads", "n_head"},
          {"num_hidden_layers", "n_layer"}};
}

ModelFamily gpt2_family() {
  ModelFamily family;
  family.name = "gpt2";
  family.keys = gpt2_keys();
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
                     gpt2_aliases(),
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
  set_model(
      family, gpt2_config,
      [](const Gpt2Config& config) { return std::make_shared<Gpt2Impl>(config); },
      gpt2_init_rules, gpt2_sizes);
  return family;
}

}  // namespace zero
