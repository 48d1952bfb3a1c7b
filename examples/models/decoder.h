#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "launcher/model.h"
#include "zero/unit.h"

// What decoders have in common: their two ends, and attention.
namespace zero {

// Hold a module as a unit of its own, or as a part of the unit around it.
//
//   embedding = MaybeUnit<torch::nn::EmbeddingImpl>(is_large, vocab, dim);
//   register_module("embedding", embedding.ptr());
//   x = embedding(tokens);
template <class Block>
class MaybeUnit {
 public:
  MaybeUnit() = default;
  template <class... Args>
  explicit MaybeUnit(bool is_unit, Args&&... args) {
    if (is_unit) {
      unit_ = Unit<Block>(std::forward<Args>(args)...);
      block_ = unit_.ptr();
    } else {
      block_ = std::make_shared<Block>(std::forward<Args>(args)...);
    }
  }

  template <class... Args>
  auto operator()(Args&&... args) {
    return unit_.is_empty() ? block_->forward(std::forward<Args>(args)...)
                            : unit_(std::forward<Args>(args)...);
  }
  Block* operator->() const { return block_.get(); }
  const std::shared_ptr<Block>& ptr() const { return block_; }

 private:
  Unit<Block> unit_;
  std::shared_ptr<Block> block_;
};

// The head of a decoder, `lm_head`: from the stream to logits, or to their loss.
class HeadImpl : public torch::nn::Module {
 public:
  static constexpr bool kKeepsGraph = true;  // nothing runs between it and its backward
  HeadImpl(int64_t dim, int64_t vocab, bool has_bias, int64_t loss_chunk);
  // Tied to an embedding (V, C): its weight under another name.
  HeadImpl(const at::Tensor& embedding, bool has_bias, int64_t loss_chunk);

  // hidden (..., C) -> (..., V) in its type; with targets (...), of which -1 are ignored:
  // scalar, the sum of the cross entropies in fp32.
  at::Tensor forward(const at::Tensor& hidden, const at::Tensor& targets);

  at::Tensor weight;  // (V, C)
  at::Tensor bias;    // (V), or undefined

 private:
  const int64_t loss_chunk_;
};

class TokenEmbeddingImpl : public torch::nn::EmbeddingImpl {
 public:
  static constexpr bool kKeepsGraph = true;  // its graph is the tokens
  using EmbeddingImpl::EmbeddingImpl;
};

using Head = MaybeUnit<HeadImpl>;
using TokenEmbedding = MaybeUnit<TokenEmbeddingImpl>;

// A decoder's embedding and head. Where they are two, and large, each is a unit of its
// own; a tied pair belongs to what is around both.
struct DecoderEnds {
  int64_t vocab = 0, dim = 0;
  bool are_tied = false, head_has_bias = false;
  std::optional<int64_t> padding_idx = {};  // of the embedding: that row stays
  int64_t loss_chunk = 0;  // tokens whose logits the loss makes at once; 0: all
};

TokenEmbedding make_embedding(const DecoderEnds& ends);
Head make_head(const DecoderEnds& ends, const TokenEmbedding& embedding);

// A causal one, for windows of so many keys, the query's own included; 0: no window.
// Undefined where the window is no shorter than the sample.
at::Tensor window_mask(int64_t length, int64_t window, c10::Device device);

// q (B, H, T, D), k and v (B, Hk, T, D), of which each serves H / Hk heads in a row ->
// (B, T, H * D). An undefined mask: causal.
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const at::Tensor& mask, double dropout);

// (B, T, H * D) -> (B, H, T, D)
at::Tensor split_heads(const at::Tensor& x, int64_t num_heads);

// A module that turns tokens (B, T) int64 into the stream (B, T, C) behind the last norm,
// and has a head.
class Decoder : public torch::nn::Module {
 public:
  virtual at::Tensor hidden(const at::Tensor& tokens) = 0;

  at::Tensor logits(const at::Tensor& tokens);     // (B, T) -> (B, T, V)
  at::Tensor logits_of(const at::Tensor& hidden);  // (..., C) -> (..., V)
  // Sum over targets of the cross entropy, in fp32; a target of -1 is not one. tokens,
  // targets (B, T) int64.
  at::Tensor forward(const at::Tensor& tokens, const at::Tensor& targets);

 protected:
  Head head_;
};

// What a decoder's activations follow from, beside its shape. Sizes are in elements.
struct DecoderSizes {
  double inner = 0;           // of a layer's widest activation, and its gradient
  double kept_per_token = 0;  // by a layer for its backward, dropout apart
  double weights = 0;         // of a layer
  bool is_tied = true;        // the head is the embedding
  bool masks_stream = true;   // dropout of the stream, beside that of attention
};

// Estimate ModelFamily::activation_bytes, computed on a CPU.
ActivationBytes decoder_activation_bytes(const DecoderSizes& sizes,
                                         const ModelShape& shape, const PassShape& pass);

}  // namespace zero
