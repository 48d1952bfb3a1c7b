#pragma once
#include <torch/torch.h>

#include <memory>
#include <optional>

#include "examples/models/decoder.h"
#include "zero/init_spec.h"
#include "zero/unit.h"

namespace zero {

// GPT-2 with the names, layouts and initialisation of Hugging Face's GPT2LMHeadModel: its
// files load without translation. Pre-norm blocks, learned positions, tanh GELU.
struct Gpt2Config {
  int64_t n_layer = 12, n_head = 12, n_embd = 768, n_positions = 1024, vocab_size = 50257;
  int64_t n_inner = 0;  // width of the MLP; 0: 4 * n_embd
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool has_tied_head = true;
  double dropout = 0;
  int64_t loss_chunk = 0;  // tokens whose logits the loss makes at once; 0: all

  int64_t inner() const { return n_inner > 0 ? n_inner : 4 * n_embd; }
};

// y = x W + b with W (in, out), as Hugging Face's Conv1D keeps it.
class Conv1DImpl : public torch::nn::Module {
 public:
  Conv1DImpl(int64_t in, int64_t out);
  at::Tensor forward(const at::Tensor& x);  // (..., in) -> (..., out)

  at::Tensor weight;  // (in, out)
  at::Tensor bias;    // (out)
};
TORCH_MODULE(Conv1D);

class Gpt2AttentionImpl : public torch::nn::Module {
 public:
  explicit Gpt2AttentionImpl(const Gpt2Config& config);
  at::Tensor forward(const at::Tensor& x);  // (B, T, C) -> (B, T, C)

 private:
  const int64_t num_heads_;
  const double dropout_;
  Conv1D c_attn{nullptr}, c_proj{nullptr};
  torch::nn::Dropout resid_dropout{nullptr};
};
TORCH_MODULE(Gpt2Attention);

class Gpt2MlpImpl : public torch::nn::Module {
 public:
  explicit Gpt2MlpImpl(const Gpt2Config& config);
  at::Tensor forward(const at::Tensor& x);  // (B, T, C) -> (B, T, C)

 private:
  Conv1D c_fc{nullptr}, c_proj{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Gpt2Mlp);

class Gpt2BlockImpl : public torch::nn::Module {
 public:
  explicit Gpt2BlockImpl(const Gpt2Config& config);
  at::Tensor forward(at::Tensor x);  // (B, T, C) -> (B, T, C)

 private:
  torch::nn::LayerNorm ln_1{nullptr}, ln_2{nullptr};
  Gpt2Attention attn{nullptr};
  Gpt2Mlp mlp{nullptr};
};

// `transformer.*`: embeddings, blocks, final norm.
class Gpt2TransformerImpl : public torch::nn::Module {
 public:
  explicit Gpt2TransformerImpl(const Gpt2Config& config);
  at::Tensor forward(const at::Tensor& tokens);  // (B, T) int64 -> (B, T, C)

  TokenEmbedding wte;
  torch::nn::Embedding wpe{nullptr};
  torch::nn::Dropout drop{nullptr};
  UnitList<Gpt2BlockImpl> h{nullptr};
  torch::nn::LayerNorm ln_f{nullptr};
};
TORCH_MODULE(Gpt2Transformer);

class Gpt2Impl : public Decoder {
 public:
  explicit Gpt2Impl(const Gpt2Config& config);
  at::Tensor hidden(const at::Tensor& tokens) override { return transformer(tokens); }

  Gpt2Transformer transformer{nullptr};
};
TORCH_MODULE(Gpt2);

// Normal(0, initializer_range); residual projections narrower by sqrt(2 n_layer); biases
// zero; norms one and zero.
InitRules gpt2_init_rules(const Gpt2Config& config);

// Throws Error(kUsage) when the numbers do not fit together.
void check(const Gpt2Config& config);

}  // namespace zero
