// GPT-NeoX and Pythia, with the names and layouts of Hugging Face's GPTNeoXForCausalLM:
// queries, keys and values of one matrix, head by head; rotary positions on a part of
// each head; attention and feed-forward beside each other, or one after the other.
#include <torch/torch.h>

#include "checkpoint/json.h"
#include "examples/models/config_reader.h"
#include "examples/models/decoder.h"
#include "examples/models/families.h"
#include "examples/models/rotary.h"

namespace zero {
namespace {

namespace nn = torch::nn;
using nlohmann::json;

struct NeoXConfig : DecoderConfig {
  std::string gelu = "none";  // by the error function; or "tanh"
  bool is_parallel = true, has_attention_bias = true;
};

NeoXConfig neox_config(const ModelShape& shape) {
  const ConfigReader config(shape.config, "gpt_neox");
  NeoXConfig neox{read_decoder(config, shape, "layer_norm_eps")};
  const int64_t head_dim = read_head_dim(config, shape, neox);
  const json asked = shape.config.value("head_dim", json());
  // transformers would turn another part of each head.
  config.require(asked.is_null() || asked == head_dim,
                 "head_dim is " + checkpoint::shown(asked) +
                     ", and heads of this model have " + std::to_string(head_dim) +
                     " values",
                 "head_dim: " + std::to_string(head_dim) + ", or leave it out");
  const std::string act = config.text("hidden_act");
  const bool is_exact = act == "gelu";
  config.require(
      is_exact || act == "gelu_new" || act == "gelu_fast" || act == "gelu_pytorch_tanh",
      "hidden_act " + checkpoint::shown(act) + " is not here",
      "gelu, gelu_new, gelu_fast or gelu_pytorch_tanh");
  neox.gelu = is_exact ? "none" : "tanh";
  neox.is_parallel = config.boolean("use_parallel_residual");
  neox.has_attention_bias = config.boolean("attention_bias");
  const ConfigReader rope(config.at("rope_parameters"), "rope_parameters");
  const double fraction = rope.number_or("partial_rotary_factor", 0.25, 0, 1);
  neox.rotary =
      read_rotary(config, static_cast<int64_t>(static_cast<double>(head_dim) * fraction));
  return neox;
}

class NeoXAttentionImpl : public nn::Module {
 public:
  explicit NeoXAttentionImpl(const NeoXConfig& config)
      : num_heads_(config.n_head), dropout_(config.dropout) {
    const int64_t dim = config.n_embd;
    const auto linear = [&](int64_t out) {
      return Linear(dim, out, config.has_attention_bias);
    };
    query_key_value = register_module("query_key_value", linear(3 * dim));
    dense = register_module("dense", linear(dim));
  }

  // x (B, T, C) -> (B, T, C)
  at::Tensor forward(const at::Tensor& x, const Positions& positions) {
    const RotaryAngles& angles = positions.angles;
    // (B, H, T, 3 D): rows of the matrix are queries, keys and values of head after head
    const std::vector<at::Tensor> qkv =
        split_heads(query_key_value(x), num_heads_).chunk(3, -1);
    return dense(attend(rotate_halves(qkv[0], angles), rotate_halves(qkv[1], angles),
                        qkv[2], positions, is_training() ? dropout_ : 0));
  }

 private:
  const int64_t num_heads_;
  const double dropout_;
  Linear query_key_value{nullptr}, dense{nullptr};
};

class NeoXLayerImpl : public nn::Module {
 public:
  explicit NeoXLayerImpl(const NeoXConfig& config) : is_parallel_(config.is_parallel) {
    const auto norm = [&] { return LayerNorm(config.n_embd, config.norm_epsilon); };
    input_layernorm = register_module("input_layernorm", norm());
    post_attention_layernorm = register_module("post_attention_layernorm", norm());
    post_attention_dropout =
        register_module("post_attention_dropout", nn::Dropout(config.dropout));
    attention = MaybeUnit<NeoXAttentionImpl>(config.sublayers, config);
    attention.take_along(input_layernorm.ptr());
    attention.take_along(post_attention_dropout.ptr());
    register_module("attention", attention.ptr());
    mlp = GeluMlp<Linear>(config.sublayers, "dense_h_to_4h", "dense_4h_to_h", config,
                          config.gelu);
    mlp.take_along(post_attention_layernorm.ptr());
    register_module("mlp", mlp.ptr());
  }

  // x (B, T, C) -> (B, T, C)
  at::Tensor forward(const at::Tensor& x, const Positions& positions) {
    const auto attention_half = [this](const at::Tensor& x, const Positions& positions) {
      return post_attention_dropout(attention->forward(input_layernorm(x), positions));
    };
    const auto mlp_half = [this](const at::Tensor& x, const at::Tensor& attended) {
      if (is_parallel_) return mlp->forward(post_attention_layernorm(x)) + attended + x;
      const at::Tensor y = attended + x;
      return mlp->forward(post_attention_layernorm(y)) + y;
    };
    at::Tensor attended = attention.run(attention_half, x, marked(positions));
    return mlp.run(mlp_half, x, batched(std::move(attended)));
  }

 private:
  const bool is_parallel_;
  LayerNorm input_layernorm{nullptr}, post_attention_layernorm{nullptr};
  nn::Dropout post_attention_dropout{nullptr};
  MaybeUnit<NeoXAttentionImpl> attention;
  GeluMlp<Linear> mlp;
};

std::shared_ptr<Decoder> make_neox(const NeoXConfig& config) {
  return make_decoder<NeoXLayerImpl>(
      {"gpt_neox", "embed_in", "emb_dropout", "layers", "final_layer_norm", "embed_out"},
      config);
}

InitRules neox_init_rules(const NeoXConfig& config) {
  return {{"*norm.weight", ones()},
          {"*.bias", zeros()},
          {"*", normal(0, config.initializer_range)}};
}

// Norms' inputs and outputs, queries and keys as they come and rotated, values, and what
// attention makes of them.
DecoderSizes neox_sizes(const NeoXConfig& config, const PassShape&) {
  return gelu_block_sizes(config, 8, config.is_parallel ? 1 : 2);
}

json pythia(int64_t layers, int64_t dim, int64_t heads, int64_t vocab = 50304) {
  return {{"vocab_size", vocab},
          {"num_hidden_layers", layers},
          {"hidden_size", dim},
          {"num_attention_heads", heads},
          {"intermediate_size", 4 * dim}};
}

std::map<std::string, json> neox_presets() {
  json tiny = pythia(4, 128, 4);
  tiny["vocab_size"] = nullptr;
  tiny["max_position_embeddings"] = 256;
  json neox = json::object();
  neox["hidden_act"] = "gelu_fast";
  return {{"pythia-1m", tiny},
          {"pythia-70m", pythia(6, 512, 8)},
          {"pythia-160m", pythia(12, 768, 12)},
          {"pythia-410m", pythia(24, 1024, 16)},
          {"pythia-1b", pythia(16, 2048, 8)},
          {"pythia-1.4b", pythia(24, 2048, 16)},
          {"pythia-2.8b", pythia(32, 2560, 32)},
          {"pythia-6.9b", pythia(32, 4096, 32, 50432)},
          {"pythia-12b", pythia(36, 5120, 40, 50688)},
          {"gpt-neox-20b", neox}};
}

}  // namespace

ModelFamily gpt_neox_family() {
  ModelFamily family;
  family.name = "gpt_neox";
  family.keys = {.layers = "num_hidden_layers",
                 .dim = "hidden_size",
                 .heads = "num_attention_heads",
                 .ffn_dim = "intermediate_size",
                 .positions = "max_position_embeddings"};
  family.classes = {
      {"gpt_neox",
       "GPTNeoXForCausalLM",
       {{"vocab_size", 50432},
        {"hidden_size", 6144},
        {"num_hidden_layers", 44},
        {"num_attention_heads", 64},
        {"head_dim", nullptr},
        {"intermediate_size", 24576},
        {"hidden_act", "gelu"},
        {"max_position_embeddings", 2048},
        {"initializer_range", 0.02},
        {"layer_norm_eps", 1e-5},
        {"tie_word_embeddings", false},
        {"use_parallel_residual", true},
        {"attention_bias", true},
        {"rope_parameters",
         {{"rope_type", "default"},
          {"rope_theta", 1e4},
          {"partial_rotary_factor", 0.25}}}},
       json::object(),
       {"attention_dropout", "hidden_dropout", "classifier_dropout"},
       {},
       "gpt_neox.",
       {"*.attention.bias", "*.attention.masked_bias", "*.rotary_emb.inv_freq"}}};
  family.presets = neox_presets();
  family.default_preset = "pythia-1m";
  family.modernise = [](json& config) {
    modernise_rotary(config, "rotary_emb_base", "rotary_pct");
  };
  family.age = [](json& config) {
    age_rotary(config, "rotary_emb_base", "rotary_pct");
    if (config.value("head_dim", json()).is_null()) config.erase("head_dim");
  };
  family.names_in_peft = {{"embed_out*", "lm_head*"}};
  family.resize = [](json& config) {
    config["intermediate_size"] = 4 * config.at("hidden_size").get<int64_t>();
  };
  set_model(family, neox_config, make_neox, neox_init_rules, neox_sizes);
  return family;
}

}  // namespace zero
