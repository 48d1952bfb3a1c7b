#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "examples/models/decoder.h"

namespace zero {

struct ModelShape;

// The decoders that grew out of Llama, with the names and layouts of Hugging Face's
// LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM and Qwen3ForCausalLM: their
// files load without translation. Pre-norm blocks with RMSNorm, rotary positions, grouped
// queries, gated SiLU.
struct LlamaConfig : DecoderConfig {
  int64_t num_kv_heads = 0, head_dim = 0;
  bool has_qkv_bias = false, has_o_bias = false, has_mlp_bias = false;
  bool has_qk_norm = false;  // of each head, before the rotation

  int64_t q_dim() const { return n_head * head_dim; }
  int64_t kv_dim() const { return num_kv_heads * head_dim; }
};

inline KeyValueHeads key_value_heads(const LlamaConfig& config) {
  return {config.num_kv_heads, config.head_dim};
}

// From a shape whose config is complete. Throws Error(kUsage) for what does not fit
// together or is not here.
LlamaConfig llama_config(const ModelShape& shape);

// Normalise by the root of the mean square in fp32, round to the input's type, and scale
// in that type.
class RmsNormImpl : public torch::nn::Module {
 public:
  RmsNormImpl(int64_t dim, double eps);
  at::Tensor forward(const at::Tensor& x);  // (..., dim) -> the same
  // x + added, and its norm.
  std::pair<at::Tensor, at::Tensor> of_sum(const at::Tensor& x, at::Tensor added);

  at::Tensor weight;  // (dim)

 private:
  const double eps_;
};
TORCH_MODULE(RmsNorm);

std::shared_ptr<Decoder> make_llama(const LlamaConfig& config);

}  // namespace zero
