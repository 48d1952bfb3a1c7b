// GPT-J, with the names and layouts of Hugging Face's GPTJForCausalLM: one norm for
// attention and feed-forward, which both add to the stream; rotary positions of pairs
// side by side, on the first values of each head; a head with a bias.
#include <torch/torch.h>

#include "examples/models/config_reader.h"
#include "examples/models/decoder.h"
#include "examples/models/families.h"
#include "examples/models/rotary.h"

namespace zero {
namespace {

namespace nn = torch::nn;
using nlohmann::json;

struct GptJConfig {
  int64_t vocab_size = 0, n_embd = 0, n_layer = 0, n_head = 0, n_inner = 0;
  int64_t rotary_dim = 0;  // of each head
  double layer_norm_epsilon = 1e-5, initializer_range = 0.02;
  bool has_tied_head = false;
  double dropout = 0;
  int64_t loss_chunk = 0;
};

GptJConfig gptj_config(const ModelShape& shape) {
  const ConfigReader config(shape.config, "gptj");
  GptJConfig gptj;
  gptj.vocab_size = config.integer("vocab_size", 1, 1 << 30);
  gptj.n_embd = config.integer("n_embd");
  gptj.n_layer = config.integer("n_layer", 1, 1 << 14);
  gptj.n_head = config.integer("n_head", 1, 1 << 16);
  gptj.n_inner = config.integer_or("n_inner", 4 * gptj.n_embd, 1, 1 << 26);
  config.require(gptj.n_embd % gptj.n_head == 0,
                 "n_embd " + std::to_string(gptj.n_embd) + " does not divide into " +
                     std::to_string(gptj.n_head) + " heads",
                 "a multiple of n_head");
  gptj.rotary_dim = config.integer("rotary_dim", 2, gptj.n_embd / gptj.n_head);
  config.require(gptj.rotary_dim % 2 == 0, "rotary_dim is odd", "an even number");
  config.integer("n_positions", 1, 1 << 30);  // samples are as long
  gptj.layer_norm_epsilon = config.number("layer_norm_epsilon", 0, 1);
  gptj.initializer_range = config.number("initializer_range", 0, 1e3);
  gptj.has_tied_head = config.boolean("tie_word_embeddings");
  gptj.dropout = shape.dropout;
  gptj.loss_chunk = shape.loss_chunk;
  return gptj;
}

class GptJAttentionImpl : public nn::Module {
 public:
  explicit GptJAttentionImpl(const GptJConfig& config)
      : num_heads_(config.n_head), dropout_(config.dropout) {
    for (auto [name, projection] : {std::pair("k_proj", &k_proj),
                                    {"v_proj", &v_proj},
                                    {"q_proj", &q_proj},
                                    {"out_proj", &out_proj}}) {
      *projection = register_module(
          name, nn::Linear(nn::LinearOptions(config.n_embd, config.n_embd).bias(false)));
    }
    resid_dropout = register_module("resid_dropout", nn::Dropout(config.dropout));
  }

  // x (B, T, C) -> (B, T, C)
  at::Tensor forward(const at::Tensor& x, const RotaryAngles& angles) {
    const auto heads = [&](nn::Linear& projection) {
      return split_heads(projection(x), num_heads_);
    };
    const at::Tensor y = attend(rotate_neighbours(heads(q_proj), angles),
                                rotate_neighbours(heads(k_proj), angles), heads(v_proj),
                                {}, is_training() ? dropout_ : 0);
    return resid_dropout(out_proj(y));
  }

 private:
  const int64_t num_heads_;
  const double dropout_;
  nn::Linear k_proj{nullptr}, v_proj{nullptr}, q_proj{nullptr}, out_proj{nullptr};
  nn::Dropout resid_dropout{nullptr};
};
TORCH_MODULE(GptJAttention);

class GptJMlpImpl : public nn::Module {
 public:
  explicit GptJMlpImpl(const GptJConfig& config) {
    fc_in = register_module("fc_in", nn::Linear(config.n_embd, config.n_inner));
    fc_out = register_module("fc_out", nn::Linear(config.n_inner, config.n_embd));
    dropout = register_module("dropout", nn::Dropout(config.dropout));
  }
  at::Tensor forward(const at::Tensor& x) {  // (B, T, C) -> (B, T, C)
    return dropout(fc_out(at::gelu(fc_in(x), "tanh")));
  }

 private:
  nn::Linear fc_in{nullptr}, fc_out{nullptr};
  nn::Dropout dropout{nullptr};
};
TORCH_MODULE(GptJMlp);

nn::LayerNorm layer_norm(const GptJConfig& config) {
  return nn::LayerNorm(
      nn::LayerNormOptions({config.n_embd}).eps(config.layer_norm_epsilon));
}

class GptJBlockImpl : public nn::Module {
 public:
  explicit GptJBlockImpl(const GptJConfig& config) {
    ln_1 = register_module("ln_1", layer_norm(config));
    attn = register_module("attn", GptJAttention(config));
    mlp = register_module("mlp", GptJMlp(config));
  }
  // x (B, T, C) -> (B, T, C); the angles are the same for all rows.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
    const at::Tensor y = ln_1(x);
    return attn(y, RotaryAngles{cos, sin}) + mlp(y) + x;
  }

 private:
  nn::LayerNorm ln_1{nullptr};
  GptJAttention attn{nullptr};
  GptJMlp mlp{nullptr};
};

DecoderEnds ends_of(const GptJConfig& config) {
  return {.vocab = config.vocab_size,
          .dim = config.n_embd,
          .are_tied = config.has_tied_head,
          .head_has_bias = true,
          .loss_chunk = config.loss_chunk};
}

// `transformer.*`: embedding, blocks, final norm.
class GptJTransformerImpl : public nn::Module {
 public:
  explicit GptJTransformerImpl(const GptJConfig& config)
      : rotary_({.dim = config.rotary_dim}) {
    wte = make_embedding(ends_of(config));
    register_module("wte", wte.ptr());
    drop = register_module("drop", nn::Dropout(config.dropout));
    h = register_module(
        "h", UnitList<GptJBlockImpl>(std::make_shared<UnitListImpl<GptJBlockImpl>>()));
    for (int64_t i = 0; i < config.n_layer; ++i)
      h->push_back(Unit<GptJBlockImpl>(config));
    ln_f = register_module("ln_f", layer_norm(config));
  }
  at::Tensor forward(const at::Tensor& tokens) {  // (B, T) int64 -> (B, T, C)
    at::Tensor x = drop(wte(tokens));
    const RotaryAngles angles = rotary_.angles(tokens.size(1), x);
    for (auto& block : *h) x = block.value()(x, shared(angles.cos), shared(angles.sin));
    return ln_f(x);
  }

  TokenEmbedding wte;

 private:
  RotaryTable rotary_;
  nn::Dropout drop{nullptr};
  UnitList<GptJBlockImpl> h{nullptr};
  nn::LayerNorm ln_f{nullptr};
};
TORCH_MODULE(GptJTransformer);

class GptJ : public Decoder {
 public:
  explicit GptJ(const GptJConfig& config) {
    transformer = register_module("transformer", GptJTransformer(config));
    head_ = make_head(ends_of(config), transformer->wte);
    register_module("lm_head", head_.ptr());
  }
  at::Tensor hidden(const at::Tensor& tokens) override { return transformer(tokens); }

 private:
  GptJTransformer transformer{nullptr};
};

InitRules gptj_init_rules(const ModelShape& shape) {
  return {{"*.ln_?.weight", ones()},
          {"*.bias", zeros()},
          {"*", normal(0, gptj_config(shape).initializer_range)}};
}

// What a block keeps for its backward: its norm's input and output, queries, keys and
// values, the first two rotated, what attention makes of them, and the MLP before and
// after its GELU.
ActivationBytes gptj_activation_bytes(const ModelShape& shape, const PassShape& pass) {
  const GptJConfig config = gptj_config(shape);
  const auto dim = static_cast<double>(config.n_embd);
  DecoderSizes sizes;
  sizes.inner = static_cast<double>(config.n_inner);
  sizes.kept_per_token = 7 * dim + 2 * sizes.inner;
  sizes.weights = (4 * dim + 2 * sizes.inner) * dim;
  sizes.is_tied = config.has_tied_head;
  return decoder_activation_bytes(sizes, shape, pass);
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
  family.keys = {.layers = "n_layer",
                 .dim = "n_embd",
                 .heads = "n_head",
                 .ffn_dim = "n_inner",
                 .positions = "n_positions"};
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
                     {{"hidden_size", "n_embd"},
                      {"max_position_embeddings", "n_positions"},
                      {"num_attention_heads", "n_head"},
                      {"num_hidden_layers", "n_layer"}},
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
  family.check = [](const ModelShape& shape) { gptj_config(shape); };
  family.make = [](const ModelShape& shape) {
    return as_language_model(std::make_shared<GptJ>(gptj_config(shape)));
  };
  family.init_rules = gptj_init_rules;
  family.activation_bytes = gptj_activation_bytes;
  return family;
}

}  // namespace zero
