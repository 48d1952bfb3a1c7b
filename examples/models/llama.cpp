#include "examples/models/llama.h"

#include "zero/layers.h"

namespace zero {
namespace {

namespace nn = torch::nn;

class LlamaAttentionImpl : public nn::Module {
 public:
  explicit LlamaAttentionImpl(const LlamaConfig& config)
      : num_heads_(config.n_head),
        num_kv_heads_(config.num_kv_heads),
        dropout_(config.dropout) {
    const int64_t dim = config.n_embd, q = config.q_dim(), kv = config.kv_dim();
    q_proj = register_module("q_proj", Linear(dim, q, config.has_qkv_bias));
    k_proj = register_module("k_proj", Linear(dim, kv, config.has_qkv_bias));
    v_proj = register_module("v_proj", Linear(dim, kv, config.has_qkv_bias));
    o_proj = register_module("o_proj", Linear(q, dim, config.has_o_bias));
    if (!config.has_qk_norm) return;
    q_norm = register_module("q_norm", RmsNorm(config.head_dim, config.norm_epsilon));
    k_norm = register_module("k_norm", RmsNorm(config.head_dim, config.norm_epsilon));
  }

  // x (B, T, C) -> (B, T, C)
  at::Tensor forward(const at::Tensor& x, const Positions& positions) {
    const RotaryAngles& angles = positions.angles;
    at::Tensor q = split_heads(q_proj(x), num_heads_);
    at::Tensor k = split_heads(k_proj(x), num_kv_heads_);
    const at::Tensor v = split_heads(v_proj(x), num_kv_heads_);
    if (q_norm) q = q_norm(q), k = k_norm(k);
    return o_proj(attend(rotate_halves(q, angles), rotate_halves(k, angles), v, positions,
                         is_training() ? dropout_ : 0));
  }

 private:
  const int64_t num_heads_, num_kv_heads_;
  const double dropout_;
  Linear q_proj{nullptr}, k_proj{nullptr}, v_proj{nullptr}, o_proj{nullptr};
  RmsNorm q_norm{nullptr}, k_norm{nullptr};  // Qwen3's
};

class LlamaMlpImpl : public nn::Module {
 public:
  explicit LlamaMlpImpl(const LlamaConfig& config) {
    const int64_t dim = config.n_embd, inner = config.inner();
    gate_proj = register_module("gate_proj", Linear(dim, inner, config.has_mlp_bias));
    up_proj = register_module("up_proj", Linear(dim, inner, config.has_mlp_bias));
    down_proj = register_module("down_proj", Linear(inner, dim, config.has_mlp_bias));
  }
  at::Tensor forward(const at::Tensor& x) {  // (B, T, C) -> (B, T, C)
    return down_proj(swiglu(gate_proj(x), up_proj(x)));
  }

 private:
  Linear gate_proj{nullptr}, up_proj{nullptr}, down_proj{nullptr};
};

class LlamaLayerImpl : public nn::Module {
 public:
  explicit LlamaLayerImpl(const LlamaConfig& config) {
    const auto norm = [&] { return RmsNorm(config.n_embd, config.norm_epsilon); };
    self_attn = MaybeUnit<LlamaAttentionImpl>(config.sublayers, config);
    register_module("self_attn", self_attn.ptr());
    mlp = MaybeUnit<LlamaMlpImpl>(config.sublayers, config);
    register_module("mlp", mlp.ptr());
    input_layernorm = register_module("input_layernorm", norm());
    self_attn.take_along(input_layernorm.ptr());
    post_attention_layernorm = register_module("post_attention_layernorm", norm());
    mlp.take_along(post_attention_layernorm.ptr());
  }
  // x (B, T, C) -> (B, T, C)
  at::Tensor forward(const at::Tensor& x, const Positions& positions) {
    const auto attention_half = [this](const at::Tensor& x, const Positions& positions) {
      return self_attn->forward(input_layernorm(x), positions);
    };
    const auto mlp_half = [this](const at::Tensor& x, at::Tensor attended) {
      const auto [sum, y] = post_attention_layernorm->of_sum(x, std::move(attended));
      return sum + mlp->forward(y);
    };
    at::Tensor attended = self_attn.run(attention_half, x, marked(positions));
    return mlp.run(mlp_half, x, batched(std::move(attended)));
  }

 private:
  RmsNorm input_layernorm{nullptr}, post_attention_layernorm{nullptr};
  MaybeUnit<LlamaAttentionImpl> self_attn;
  MaybeUnit<LlamaMlpImpl> mlp;
};

}  // namespace

RmsNormImpl::RmsNormImpl(int64_t dim, double eps) : eps_(eps) {
  weight = register_parameter("weight", torch::ones({dim}));
}

at::Tensor RmsNormImpl::forward(const at::Tensor& x) { return rms_norm(x, weight, eps_); }

std::pair<at::Tensor, at::Tensor> RmsNormImpl::of_sum(const at::Tensor& x,
                                                      at::Tensor added) {
  return add_rms_norm(x, added, weight, eps_);
}

std::shared_ptr<Decoder> make_llama(const LlamaConfig& config) {
  return make_decoder<LlamaLayerImpl, RmsNorm>(
      {"model", "embed_tokens", nullptr, "layers", "norm", "lm_head"}, config);
}

}  // namespace zero
