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

struct NeoXConfig {
  int64_t vocab_size = 0, hidden_size = 0, num_layers = 0, num_heads = 0;
  int64_t intermediate_size = 0;
  double layer_norm_eps = 1e-5, initializer_range = 0.02;
  std::string gelu;  // "none": by the error function; "tanh"
  bool is_parallel = true, has_attention_bias = true, has_tied_head = false;
  RotaryOptions rotary;
  double dropout = 0;
  int64_t loss_chunk = 0;
};

NeoXConfig neox_config(const ModelShape& shape) {
  const ConfigReader config(shape.config, "gpt_neox");
  NeoXConfig neox;
  neox.vocab_size = config.integer("vocab_size", 1, 1 << 30);
  neox.hidden_size = config.integer("hidden_size");
  neox.num_layers = config.integer("num_hidden_layers", 1, 1 << 14);
  neox.num_heads = config.integer("num_attention_heads", 1, 1 << 16);
  neox.intermediate_size =
      config.integer_or("intermediate_size", 4 * neox.hidden_size, 1, 1 << 26);
  config.require(neox.hidden_size % neox.num_heads == 0,
                 "hidden_size " + std::to_string(neox.hidden_size) +
                     " does not divide into " + std::to_string(neox.num_heads) + " heads",
                 "a multiple of num_attention_heads");
  config.integer("max_position_embeddings", 1, 1 << 30);  // samples are as long
  neox.layer_norm_eps = config.number("layer_norm_eps", 0, 1);
  neox.initializer_range = config.number("initializer_range", 0, 1e3);
  const std::string act = config.text("hidden_act");
  const bool is_exact = act == "gelu";
  config.require(
      is_exact || act == "gelu_new" || act == "gelu_fast" || act == "gelu_pytorch_tanh",
      "hidden_act " + checkpoint::shown(act) + " is not here",
      "gelu, gelu_new, gelu_fast or gelu_pytorch_tanh");
  neox.gelu = is_exact ? "none" : "tanh";
  neox.is_parallel = config.boolean("use_parallel_residual");
  neox.has_attention_bias = config.boolean("attention_bias");
  neox.has_tied_head = config.boolean("tie_word_embeddings");
  const ConfigReader rope(config.at("rope_parameters"), "rope_parameters");
  const double fraction = rope.number_or("partial_rotary_factor", 0.25, 0, 1);
  const int64_t head_dim = neox.hidden_size / neox.num_heads;
  neox.rotary =
      read_rotary(config, static_cast<int64_t>(static_cast<double>(head_dim) * fraction));
  neox.dropout = shape.dropout;
  neox.loss_chunk = shape.loss_chunk;
  return neox;
}

class NeoXAttentionImpl : public nn::Module {
 public:
  explicit NeoXAttentionImpl(const NeoXConfig& config)
      : num_heads_(config.num_heads), dropout_(config.dropout) {
    const int64_t dim = config.hidden_size;
    const auto linear = [&](int64_t out) {
      return nn::Linear(nn::LinearOptions(dim, out).bias(config.has_attention_bias));
    };
    query_key_value = register_module("query_key_value", linear(3 * dim));
    dense = register_module("dense", linear(dim));
  }

  // x (B, T, C) -> (B, T, C)
  at::Tensor forward(const at::Tensor& x, const RotaryAngles& angles) {
    // (B, H, T, 3 D): rows of the matrix are queries, keys and values of head after head
    const std::vector<at::Tensor> qkv =
        split_heads(query_key_value(x), num_heads_).chunk(3, -1);
    return dense(attend(rotate_halves(qkv[0], angles), rotate_halves(qkv[1], angles),
                        qkv[2], {}, is_training() ? dropout_ : 0));
  }

 private:
  const int64_t num_heads_;
  const double dropout_;
  nn::Linear query_key_value{nullptr}, dense{nullptr};
};
TORCH_MODULE(NeoXAttention);

class NeoXMlpImpl : public nn::Module {
 public:
  explicit NeoXMlpImpl(const NeoXConfig& config) : gelu_(config.gelu) {
    const int64_t dim = config.hidden_size, inner = config.intermediate_size;
    dense_h_to_4h = register_module("dense_h_to_4h", nn::Linear(dim, inner));
    dense_4h_to_h = register_module("dense_4h_to_h", nn::Linear(inner, dim));
  }
  at::Tensor forward(const at::Tensor& x) {  // (B, T, C) -> (B, T, C)
    return dense_4h_to_h(at::gelu(dense_h_to_4h(x), gelu_));
  }

 private:
  const std::string gelu_;
  nn::Linear dense_h_to_4h{nullptr}, dense_4h_to_h{nullptr};
};
TORCH_MODULE(NeoXMlp);

nn::LayerNorm layer_norm(const NeoXConfig& config) {
  return nn::LayerNorm(
      nn::LayerNormOptions({config.hidden_size}).eps(config.layer_norm_eps));
}

class NeoXLayerImpl : public nn::Module {
 public:
  explicit NeoXLayerImpl(const NeoXConfig& config) : is_parallel_(config.is_parallel) {
    input_layernorm = register_module("input_layernorm", layer_norm(config));
    post_attention_layernorm =
        register_module("post_attention_layernorm", layer_norm(config));
    post_attention_dropout =
        register_module("post_attention_dropout", nn::Dropout(config.dropout));
    post_mlp_dropout = register_module("post_mlp_dropout", nn::Dropout(config.dropout));
    attention = register_module("attention", NeoXAttention(config));
    mlp = register_module("mlp", NeoXMlp(config));
  }

  // x (B, T, C) -> (B, T, C); the angles are the same for all rows.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
    const at::Tensor attended =
        post_attention_dropout(attention(input_layernorm(x), RotaryAngles{cos, sin}));
    if (is_parallel_)
      return post_mlp_dropout(mlp(post_attention_layernorm(x))) + attended + x;
    const at::Tensor y = attended + x;
    return post_mlp_dropout(mlp(post_attention_layernorm(y))) + y;
  }

 private:
  const bool is_parallel_;
  nn::LayerNorm input_layernorm{nullptr}, post_attention_layernorm{nullptr};
  nn::Dropout post_attention_dropout{nullptr}, post_mlp_dropout{nullptr};
  NeoXAttention attention{nullptr};
  NeoXMlp mlp{nullptr};
};

DecoderEnds ends_of(const NeoXConfig& config) {
  return {.vocab = config.vocab_size,
          .dim = config.hidden_size,
          .are_tied = config.has_tied_head,
          .loss_chunk = config.loss_chunk};
}

// `gpt_neox.*`: embedding, layers, final norm.
class NeoXModelImpl : public nn::Module {
 public:
  explicit NeoXModelImpl(const NeoXConfig& config) : rotary_(config.rotary) {
    embed_in = make_embedding(ends_of(config));
    register_module("embed_in", embed_in.ptr());
    emb_dropout = register_module("emb_dropout", nn::Dropout(config.dropout));
    layers = register_module(
        "layers",
        UnitList<NeoXLayerImpl>(std::make_shared<UnitListImpl<NeoXLayerImpl>>()));
    for (int64_t i = 0; i < config.num_layers; ++i)
      layers->push_back(Unit<NeoXLayerImpl>(config));
    final_layer_norm = register_module("final_layer_norm", layer_norm(config));
  }
  at::Tensor forward(const at::Tensor& tokens) {  // (B, T) int64 -> (B, T, C)
    at::Tensor x = emb_dropout(embed_in(tokens));
    const RotaryAngles angles = rotary_.angles(tokens.size(1), x);
    for (auto& layer : *layers)
      x = layer.value()(x, shared(angles.cos), shared(angles.sin));
    return final_layer_norm(x);
  }

  TokenEmbedding embed_in;

 private:
  RotaryTable rotary_;
  nn::Dropout emb_dropout{nullptr};
  UnitList<NeoXLayerImpl> layers{nullptr};
  nn::LayerNorm final_layer_norm{nullptr};
};
TORCH_MODULE(NeoXModel);

class NeoX : public Decoder {
 public:
  explicit NeoX(const NeoXConfig& config) {
    gpt_neox = register_module("gpt_neox", NeoXModel(config));
    head_ = make_head(ends_of(config), gpt_neox->embed_in);
    register_module("embed_out", head_.ptr());
  }
  at::Tensor hidden(const at::Tensor& tokens) override { return gpt_neox(tokens); }

 private:
  NeoXModel gpt_neox{nullptr};
};

InitRules neox_init_rules(const ModelShape& shape) {
  return {{"*norm.weight", ones()},
          {"*.bias", zeros()},
          {"*", normal(0, neox_config(shape).initializer_range)}};
}

// What a layer keeps for its backward: its norms' inputs and outputs, queries and keys as
// they come and rotated, values, what attention makes of them, and the MLP before and
// after its GELU.
ActivationBytes neox_activation_bytes(const ModelShape& shape, const PassShape& pass) {
  const NeoXConfig config = neox_config(shape);
  const auto dim = static_cast<double>(config.hidden_size);
  DecoderSizes sizes;
  sizes.inner = static_cast<double>(config.intermediate_size);
  sizes.kept_per_token = (config.is_parallel ? 10 : 11) * dim + 2 * sizes.inner;
  sizes.weights = (4 * dim + 2 * sizes.inner) * dim;
  sizes.is_tied = config.has_tied_head;
  return decoder_activation_bytes(sizes, shape, pass);
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
  family.age = [](json& config) { age_rotary(config, "rotary_emb_base", "rotary_pct"); };
  family.resize = [](json& config) {
    config["intermediate_size"] = 4 * config.at("hidden_size").get<int64_t>();
  };
  family.check = [](const ModelShape& shape) { neox_config(shape); };
  family.make = [](const ModelShape& shape) {
    return as_language_model(std::make_shared<NeoX>(neox_config(shape)));
  };
  family.init_rules = neox_init_rules;
  family.activation_bytes = neox_activation_bytes;
  return family;
}

}  // namespace zero
