// GPT-J, with the names and layouts of Hugging Face's GPTJForCausalLM: one norm for
// attention and feed-forward, which both add to the stream; rotary positions of pairs
// side by side, on the first values of each head; a head with a bias.
#include <torch/torch.h>

#include "examples/models/config_reader.h"
#include "examples/models/decoder.h"
#include "examples/models/families.h"
#include "examples/models/gpt2.h"

namespace zero {
namespace {

namespace nn = torch::nn;
using nlohmann::json;

DecoderConfig gptj_config(const ModelShape& shape) {
  const ConfigReader config(shape.config, "gptj");
  DecoderConfig gptj = read_decoder(config, shape, "layer_norm_epsilon");
  const int64_t head_dim = read_head_dim(config, shape, gptj);
  gptj.rotary.dim = config.integer("rotary_dim", 2, head_dim);
  config.require(gptj.rotary.dim % 2 == 0, "rotary_dim is odd", "an even number");
  gptj.has_head_bias = true;
  return gptj;
}

class GptJAttentionImpl : public nn::Module {
 public:
  explicit GptJAttentionImpl(const DecoderConfig& config)
      : num_heads_(config.n_head), dropout_(config.dropout) {
    for (auto [name, projection] : {std::pair("k_proj", &k_proj),
                                    {"v_proj", &v_proj},
                                    {"q_proj", &q_proj},
                                    {"out_proj", &out_proj}}) {
      *projection =
          register_module(name, Linear(config.n_embd, config.n_embd, /*has_bias=*/false));
    }
    resid_dropout = register_module("resid_dropout", nn::Dropout(config.dropout));
  }

  // x (B, T, C) -> (B, T, C)
  at::Tensor forward(const at::Tensor& x, const Positions& positions) {
    const RotaryAngles& angles = positions.angles;
    const auto heads = [&](Linear& projection) {
      return split_heads(projection(x), num_heads_);
    };
    const at::Tensor y = attend(rotate_neighbours(heads(q_proj), angles),
                                rotate_neighbours(heads(k_proj), angles), heads(v_proj),
                                positions, is_training() ? dropout_ : 0);
    return resid_dropout(out_proj(y));
  }

 private:
  const int64_t num_heads_;
  const double dropout_;
  Linear k_proj{nullptr}, v_proj{nullptr}, q_proj{nullptr}, out_proj{nullptr};
  nn::Dropout resid_dropout{nullptr};
};

class GptJBlockImpl : public nn::Module {
 public:
  explicit GptJBlockImpl(const DecoderConfig& config) {
    ln_1 = register_module("ln_1", LayerNorm(config.n_embd, config.norm_epsilon));
    attn = MaybeUnit<GptJAttentionImpl>(config.sublayers, config);
    register_module("attn", attn.ptr());
    mlp = GeluMlp<Linear>(config.sublayers, "fc_in", "fc_out", config);
    mlp.take_along(ln_1.ptr());
    register_module("mlp", mlp.ptr());
  }
  // x (B, T, C) -> (B, T, C)
  at::Tensor forward(const at::Tensor& x, const Positions& positions) {
    const auto mlp_half = [this](const at::Tensor& x) {
      at::Tensor y = ln_1(x);
      return std::pair(mlp->forward(y), y);
    };
    const auto attention_half = [this](const at::Tensor& x, const at::Tensor& y,
                                       const at::Tensor& fed,
                                       const Positions& positions) {
      return attn->forward(y, positions) + fed + x;
    };
    // In this order, so that y's gradient is summed alike in a layer and in halves.
    const auto [fed, y] = mlp.run(mlp_half, x);
    return attn.run(attention_half, x, batched(y), batched(fed), marked(positions));
  }

 private:
  LayerNorm ln_1{nullptr};
  MaybeUnit<GptJAttentionImpl> attn;
  GeluMlp<Linear> mlp;
};

std::shared_ptr<Decoder> make_gptj(const DecoderConfig& config) {
  return make_decoder<GptJBlockImpl>(kGpt2Names, config);
}

InitRules gptj_init_rules(const DecoderConfig& config) {
  return {{"*.ln_?.weight", ones()},
          {"*.bias", zeros()},
          {"*", normal(0, config.initializer_range)}};
}

// The norm's input and output, queries and keys as they were rotated, values, and what
// attention makes of them.
DecoderSizes gptj_sizes(const DecoderConfig& config, const PassShape&) {
  DecoderSizes sizes = gelu_block_sizes(config, 4, 2);
  sizes.given_to_attention = 3, sizes.given_to_mlp = 1;
  return sizes;
}

void gptj_resize(json& config) {
  const int64_t dim = config.at("n_embd"), heads = config.at("n_head");
  config["n_inner"] = nullptr;
  config["rotary_dim"] = std::min<int64_t>(64, dim / heads / 2 * 2);
}

}  // namespace

ModelFamily gptj_family() {
  ModelFamily family;
  family.name = "gptj";
  family.keys = gpt2_keys();
  family.classes = {{"gptj",
                     "GPTJForCausalLM",
                     {{"vocab_size", 50400},
                      {"n_positions", 2048},
                      {"n_embd", 4096},
                      {"n_layer", 28},
                      {"n_head", 16},
                      {"n_inner", nullptr},
                      {"rotary_dim", 64},
                      {"layer_norm_epsilon", 1e-5},
                      {"initializer_range", 0.02},
                      {"tie_word_embeddings", false}},
                     {{"activation_function", {"gelu_new", "gelu_pytorch_tanh"}}},
                     {"resid_pdrop", "embd_pdrop", "attn_pdrop"},
                     gpt2_aliases(),
                     "transformer.",
                     {"*.attn.bias", "*.attn.masked_bias", "*.attn.embed_positions"}}};
  family.presets = {{"gptj-1m",
                     {{"vocab_size", nullptr},
                      {"n_positions", 256},
                      {"n_embd", 128},
                      {"n_layer", 4},
                      {"n_head", 4},
                      {"rotary_dim", 16}}},
                    {"gptj-6b", json::object()}};
  family.default_preset = "gptj-1m";
  family.resize = gptj_resize;
  set_model(family, gptj_config, make_gptj, gptj_init_rules, gptj_sizes);
  return family;
}

}  // namespace zero
