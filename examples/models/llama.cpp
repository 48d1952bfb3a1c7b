#include "examples/models/llama.h"

namespace zero {
namespace {

namespace nn = torch::nn;

nn::Linear linear(int64_t in, int64_t out, bool has_bias) {
  return nn::Linear(nn::LinearOptions(in, out).bias(has_bias));
}

DecoderEnds ends_of(const LlamaConfig& config) {
  return {.vocab = config.vocab_size,
          .dim = config.hidden_size,
          .are_tied = config.has_tied_head,
          .padding_idx = config.padding_idx,
          .loss_chunk = config.loss_chunk};
}

}  // namespace

RmsNormImpl::RmsNormImpl(int64_t dim, double eps) : eps_(eps) {
  weight = register_parameter("weight", torch::ones({dim}));
}

at::Tensor RmsNormImpl::forward(const at::Tensor& x) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + eps_);
  return weight * (wide * scale).to(x.scalar_type());
}

LlamaAttentionImpl::LlamaAttentionImpl(const LlamaConfig& config)
    : num_heads_(config.num_heads),
      num_kv_heads_(config.num_kv_heads),
      dropout_(config.dropout) {
  const int64_t dim = config.hidden_size, q = config.q_dim(), kv = config.kv_dim();
  q_proj = register_module("q_proj", linear(dim, q, config.has_qkv_bias));
  k_proj = register_module("k_proj", linear(dim, kv, config.has_qkv_bias));
  v_proj = register_module("v_proj", linear(dim, kv, config.has_qkv_bias));
  o_proj = register_module("o_proj", linear(q, dim, config.has_o_bias));
  if (!config.has_qk_norm) return;
  q_norm = register_module("q_norm", RmsNorm(config.head_dim, config.rms_norm_eps));
  k_norm = register_module("k_norm", RmsNorm(config.head_dim, config.rms_norm_eps));
}

at::Tensor LlamaAttentionImpl::forward(const at::Tensor& x, const RotaryAngles& angles,
                                       const at::Tensor& mask) {
  at::Tensor q = split_heads(q_proj(x), num_heads_);
  at::Tensor k = split_heads(k_proj(x), num_kv_heads_);
  const at::Tensor v = split_heads(v_proj(x), num_kv_heads_);
  if (q_norm) q = q_norm(q), k = k_norm(k);
  return o_proj(attend(rotate_halves(q, angles), rotate_halves(k, angles), v, mask,
                       is_training() ? dropout_ : 0));
}

LlamaMlpImpl::LlamaMlpImpl(const LlamaConfig& config) {
  const int64_t dim = config.hidden_size, inner = config.intermediate_size;
  gate_proj = register_module("gate_proj", linear(dim, inner, config.has_mlp_bias));
  up_proj = register_module("up_proj", linear(dim, inner, config.has_mlp_bias));
  down_proj = register_module("down_proj", linear(inner, dim, config.has_mlp_bias));
}

at::Tensor LlamaMlpImpl::forward(const at::Tensor& x) {
  return down_proj(at::silu(gate_proj(x)) * up_proj(x));
}

LlamaLayerImpl::LlamaLayerImpl(const LlamaConfig& config) {
  const auto norm = [&] { return RmsNorm(config.hidden_size, config.rms_norm_eps); };
  self_attn = register_module("self_attn", LlamaAttention(config));
  mlp = register_module("mlp", LlamaMlp(config));
  input_layernorm = register_module("input_layernorm", norm());
  post_attention_layernorm = register_module("post_attention_layernorm", norm());
}

at::Tensor LlamaLayerImpl::forward(at::Tensor x, const at::Tensor& cos,
                                   const at::Tensor& sin, const at::Tensor& mask) {
  x = x + self_attn(input_layernorm(x), RotaryAngles{cos, sin}, mask);
  return x + mlp(post_attention_layernorm(x));
}

LlamaModelImpl::LlamaModelImpl(const LlamaConfig& config)
    : windows_(config.windows), rotary_(config.rotary) {
  embed_tokens = make_embedding(ends_of(config));
  register_module("embed_tokens", embed_tokens.ptr());
  layers = register_module(
      "layers",
      UnitList<LlamaLayerImpl>(std::make_shared<UnitListImpl<LlamaLayerImpl>>()));
  for (int64_t i = 0; i < config.num_layers; ++i)
    layers->push_back(Unit<LlamaLayerImpl>(config));
  norm = register_module("norm", RmsNorm(config.hidden_size, config.rms_norm_eps));
}

at::Tensor LlamaModelImpl::forward(const at::Tensor& tokens) {
  const int64_t length = tokens.size(1);
  at::Tensor x = embed_tokens(tokens);
  const RotaryAngles angles = rotary_.angles(length, x);
  std::map<int64_t, at::Tensor> masks;  // by window
  for (auto& layer : *layers) {
    const int64_t window = windows_[std::stoll(layer.key())];
    if (!masks.contains(window)) masks[window] = window_mask(length, window, x.device());
    x = layer.value()(x, shared(angles.cos), shared(angles.sin), shared(masks[window]));
  }
  return norm(x);
}

LlamaImpl::LlamaImpl(const LlamaConfig& config) {
  model = register_module("model", LlamaModel(config));
  head_ = make_head(ends_of(config), model->embed_tokens);
  register_module("lm_head", head_.ptr());
}

}  // namespace zero
