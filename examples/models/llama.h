#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "examples/models/decoder.h"
#include "examples/models/rotary.h"

namespace zero {

struct ModelShape;

// The decoders that grew out of Llama, with the names and layouts of Hugging Face's
// LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM and Qwen3ForCausalLM: their
// files load without translation. Pre-norm blocks with RMSNorm, rotary positions, grouped
// queries, gated SiLU.
struct LlamaConfig {
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0;
  int64_t num_layers = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
  double rms_norm_eps = 1e-6, initializer_range = 0.02;
  bool has_tied_head = false;
  bool has_qkv_bias = false, has_o_bias = false, has_mlp_bias = false;
  bool has_qk_norm = false;            // of each head, before the rotation
  std::optional<int64_t> padding_idx;  // of the embedding: that row stays
  std::vector<int64_t> windows;        // of each layer: keys that a query sees; 0: all
  RotaryOptions rotary;
  double dropout = 0;  // of attention weights
  int64_t loss_chunk = 0;

  int64_t q_dim() const { return num_heads * head_dim; }
  int64_t kv_dim() const { return num_kv_heads * head_dim; }
};

// From a shape whose config is complete. Throws Error(kUsage) for what does not fit
// together or is not here.
LlamaConfig llama_config(const ModelShape& shape);

// Normalise by the root of the mean square in fp32, round to the input's type, and scale
// in that type.
class RmsNormImpl : public torch::nn::Module {
 public:
  RmsNormImpl(int64_t dim, double eps);
  at::Tensor forward(const at::Tensor& x);  // (..., dim) -> the same

  at::Tensor weight;  // (dim)

 private:
  const double eps_;
};
TORCH_MODULE(RmsNorm);

class LlamaAttentionImpl : public torch::nn::Module {
 public:
  explicit LlamaAttentionImpl(const LlamaConfig& config);
  // x (B, T, C), a mask of attend() -> (B, T, C)
  at::Tensor forward(const at::Tensor& x, const RotaryAngles& angles,
                     const at::Tensor& mask);

 private:
  const int64_t num_heads_, num_kv_heads_;
  const double dropout_;
  torch::nn::Linear q_proj{nullptr}, k_proj{nullptr}, v_proj{nullptr}, o_proj{nullptr};
  RmsNorm q_norm{nullptr}, k_norm{nullptr};  // Qwen3's
};
TORCH_MODULE(LlamaAttention);

class LlamaMlpImpl : public torch::nn::Module {
 public:
  explicit LlamaMlpImpl(const LlamaConfig& config);
  at::Tensor forward(const at::Tensor& x);  // (B, T, C) -> (B, T, C)

 private:
  torch::nn::Linear gate_proj{nullptr}, up_proj{nullptr}, down_proj{nullptr};
};
TORCH_MODULE(LlamaMlp);

class LlamaLayerImpl : public torch::nn::Module {
 public:
  explicit LlamaLayerImpl(const LlamaConfig& config);
  // x (B, T, C) -> (B, T, C); the others are the same for all rows.
  at::Tensor forward(at::Tensor x, const at::Tensor& cos, const at::Tensor& sin,
                     const at::Tensor& mask);

 private:
  RmsNorm input_layernorm{nullptr}, post_attention_layernorm{nullptr};
  LlamaAttention self_attn{nullptr};
  LlamaMlp mlp{nullptr};
};

// `model.*`: embedding, layers, final norm.
class LlamaModelImpl : public torch::nn::Module {
 public:
  explicit LlamaModelImpl(const LlamaConfig& config);
  at::Tensor forward(const at::Tensor& tokens);  // (B, T) int64 -> (B, T, C)

  TokenEmbedding embed_tokens;
  UnitList<LlamaLayerImpl> layers{nullptr};
  RmsNorm norm{nullptr};

 private:
  const std::vector<int64_t> windows_;
  RotaryTable rotary_;
};
TORCH_MODULE(LlamaModel);

class LlamaImpl : public Decoder {
 public:
  explicit LlamaImpl(const LlamaConfig& config);
  at::Tensor hidden(const at::Tensor& tokens) override { return model(tokens); }

  LlamaModel model{nullptr};
};

}  // namespace zero
