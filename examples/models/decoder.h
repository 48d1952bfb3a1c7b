#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "examples/models/rotary.h"
#include "launcher/model.h"
#include "zero/key_values.h"
#include "zero/layers.h"
#include "zero/linear.h"
#include "zero/unit.h"

// What decoders have in common: all but their blocks, and parts of those.
namespace zero {

// Which parts of a decoder there are: all, or one stage of several. A stage without embed
// takes the stream (B, T, C) in place of tokens, one without head gives it back.
struct DecoderParts {
  bool embed = true;  // with positions that have an embedding, and its dropout
  bool norm = true, head = true;
  int64_t first_layer = 0, end_layer = -1;  // [first, end); -1: to the last
};

// What the configs of all decoders say, in the words of GPT-2's and with its numbers.
struct DecoderConfig {
  int64_t n_layer = 12, n_head = 12, n_embd = 768;
  int64_t n_positions = 1024;  // that have an embedding; 0: blocks know positions
  int64_t vocab_size = 50257;
  int64_t n_inner = 0;  // width of the MLP; 0: 4 * n_embd
  double norm_epsilon = 1e-5, initializer_range = 0.02;
  bool has_tied_head = true, has_head_bias = false;
  std::optional<int64_t> padding_idx = {};  // of the embedding: that row stays
  std::vector<int64_t> windows = {};  // of each block: keys that a query sees; 0: all
  RotaryOptions rotary = {};          // dim 0: nothing rotates
  double dropout = 0;
  int64_t loss_chunk = 0;  // tokens whose logits the loss makes at once; 0: all
  DecoderParts parts = {};
  // Units are attention and feed-forward, each with its norm, and not a block.
  bool sublayers = false;

  int64_t first_layer() const { return parts.first_layer; }
  int64_t end_layer() const { return parts.end_layer < 0 ? n_layer : parts.end_layer; }
  int64_t inner() const { return n_inner > 0 ? n_inner : 4 * n_embd; }
};

// Throws Error(kUsage) for layers that are not there, for no part at all, and for one of
// embed and head where they are one tensor.
void check_parts(const DecoderConfig& config);

// Hold a module as a unit of its own, or as a part of the unit around it, or none.
//
//   embedding = MaybeUnit<torch::nn::EmbeddingImpl>(is_large, vocab, dim);
//   register_module("embedding", embedding.ptr());
//   x = embedding(tokens);
//
// run() and take_along() are those of a Unit.
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
    return unit_.is_empty() ? block_->forward(unmarked(std::forward<Args>(args))...)
                            : unit_(std::forward<Args>(args)...);
  }
  explicit operator bool() const { return block_ != nullptr; }
  template <class Forward, class... Args>
  auto run(const Forward& forward, Args&&... args) {
    return unit_.is_empty() ? forward(unmarked(std::forward<Args>(args))...)
                            : unit_.run(forward, std::forward<Args>(args)...);
  }
  void take_along(std::shared_ptr<torch::nn::Module> module) {
    if (!unit_.is_empty()) unit_.take_along(std::move(module));
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
  // hidden (B, T, C), targets (B, T) -> (B, T, 2) fp32, as ScoringModel gives them.
  at::Tensor target_scores(const at::Tensor& hidden, const at::Tensor& targets);

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

// (B, T, H * D) -> (B, H, T, D)
at::Tensor split_heads(const at::Tensor& x, int64_t num_heads);

class LayerNormImpl : public torch::nn::LayerNormImpl {
 public:
  LayerNormImpl(int64_t dim, double epsilon)
      : torch::nn::LayerNormImpl(torch::nn::LayerNormOptions({dim}).eps(epsilon)) {}
};
TORCH_MODULE(LayerNorm);

// Two linear layers with a GELU between; dropout.
template <class Linear>
class GeluMlpImpl : public torch::nn::Module {
 public:
  GeluMlpImpl(const char* in, const char* out, const DecoderConfig& config,
              std::string gelu = "tanh")
      : in_(Linear(config.n_embd, config.inner())),
        out_(Linear(config.inner(), config.n_embd)),
        dropout_(config.dropout),
        gelu_(std::move(gelu)) {
    register_module(in, in_);
    register_module(out, out_);
    register_module("dropout", dropout_);
  }
  at::Tensor forward(const at::Tensor& x) {  // (B, T, C) -> (B, T, C)
    const at::Tensor inner = in_(x);
    return dropout_(out_(gelu_ == "tanh" ? gelu_tanh(inner) : at::gelu(inner, gelu_)));
  }

 private:
  Linear in_, out_;
  torch::nn::Dropout dropout_;
  const std::string gelu_;  // as at::gelu() calls it
};
template <class Linear>
using GeluMlp = MaybeUnit<GeluMlpImpl<Linear>>;

// What a block is told of positions, the same for all rows; or, where rows hold several
// documents, whose positions begin anew, of each row.
struct Positions {
  RotaryAngles angles;       // undefined where nothing rotates
  int64_t window;            // of causal_attention()
  at::Tensor document_ends;  // (B, n), undefined: a row is a document
  // Whose tokens came before, and into which of its layers the new ones go; null: none.
  KeyValues* read = nullptr;
  int64_t layer = 0;
  void visit_tensors(auto&& visit) {
    visit(angles.cos), visit(angles.sin), visit(document_ends);
  }
};

// As an argument of a unit.
inline auto marked(const Positions& positions) {
  return positions.document_ends.defined() ? batched(positions) : shared(positions);
}

// causal_attention() whose heads lie beside each other again: (B, T, H * D).
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const Positions& positions, double dropout);

// What a decoder's parts are called, in its files. Without a name: there is no dropout.
struct DecoderNames {
  const char *trunk, *embedding, *dropout, *blocks, *norm, *head;
};
inline constexpr DecoderNames kGpt2Names = {"transformer", "wte",  "drop",
                                            "h",           "ln_f", "lm_head"};

// Of documents that end there, the place of each token in its own: (B, T) int64, on the
// host; undefined where the ends are.
at::Tensor places_in(const at::Tensor& document_ends, int64_t length);

// What stands before a decoder's head: embedding, blocks, final norm. The embedding and
// the head are a unit each where they are two, and large; a tied pair belongs to what is
// around both. Parts that the config leaves out are not there, and the others keep their
// names.
class Trunk : public torch::nn::Module {
 public:
  Trunk(const DecoderNames& names, const DecoderConfig& config);
  // tokens (B, T) int64, without embed the stream (B, T, C) -> the stream behind the last
  // part (B, T, C). document_ends: as of causal_attention(), or undefined.
  // read: between its begin() and end(), or null.
  virtual at::Tensor forward(const at::Tensor& inputs, const at::Tensor& document_ends,
                             KeyValues* read) = 0;

  TokenEmbedding embedding;

 protected:
  // As forward() takes them; places (B, T): of each token in its text, or undefined.
  at::Tensor embed(const at::Tensor& inputs, const at::Tensor& places);
  // For each block.
  std::vector<Positions> positions_in(const at::Tensor& x,
                                      const at::Tensor& document_ends,
                                      const at::Tensor& places, KeyValues* read);

 private:
  const std::vector<int64_t> windows_;
  RotaryTable rotary_;
  torch::nn::Embedding positions_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
};

// A block is built from a Config, and its forward takes the stream and Positions: a unit,
// or with DecoderConfig::sublayers what holds some.
template <class Block, class Norm>
class TrunkOf : public Trunk {
 public:
  template <class Config>
  TrunkOf(const DecoderNames& names, const Config& config) : Trunk(names, config) {
    auto list = register_module(names.blocks, std::make_shared<torch::nn::Module>());
    for (int64_t i = config.first_layer(); i < config.end_layer(); ++i) {
      blocks_.emplace_back(!config.sublayers, config);
      list->register_module(std::to_string(i), blocks_.back().ptr());
    }
    first_layer_ = config.first_layer();
    if (config.parts.norm)
      norm_ = register_module(names.norm, Norm(config.n_embd, config.norm_epsilon));
  }
  at::Tensor forward(const at::Tensor& inputs, const at::Tensor& document_ends,
                     KeyValues* read) override {
    const at::Tensor places =
        read ? read->places() : places_in(document_ends, inputs.size(1));
    at::Tensor x = embed(inputs, places);
    const std::vector<Positions> positions = positions_in(x, document_ends, places, read);
    for (size_t i = 0; i < blocks_.size(); ++i)
      x = blocks_[i](x, marked(positions[first_layer_ + i]));
    return norm_ ? norm_(x) : x;
  }

 private:
  std::vector<MaybeUnit<Block>> blocks_;
  int64_t first_layer_ = 0;
  Norm norm_{nullptr};
};

class Decoder : public torch::nn::Module {
 public:
  Decoder(const DecoderNames& names, const DecoderConfig& config,
          std::shared_ptr<Trunk> trunk);

  // Inputs are tokens (B, T) int64; of a stage without embed the stream (B, T, C).
  // -> (B, T, C), for what follows. Rows may hold several documents, as those of
  // causal_attention(): positions begin anew in each.
  at::Tensor hidden(const at::Tensor& inputs, const at::Tensor& document_ends = {},
                    KeyValues* read = nullptr);
  at::Tensor logits(const at::Tensor& inputs);     // -> (B, T, V)
  at::Tensor logits_of(const at::Tensor& hidden);  // (..., C) -> (..., V)
  // Sum over targets of the cross entropy, in fp32; a target of -1 is not one. targets
  // (B, T) int64. Of a stage without head: hidden(), whatever the targets are.
  at::Tensor forward(const at::Tensor& inputs, const at::Tensor& targets,
                     const at::Tensor& document_ends = {});
  // The same of each target: (B, T, 2), as ScoringModel gives them. Needs the head.
  at::Tensor target_scores(const at::Tensor& tokens, const at::Tensor& targets,
                           const at::Tensor& document_ends);
  // Logits (B, V) behind the last token that each row of a reading gets: tokens (B, T).
  at::Tensor next_logits(const at::Tensor& tokens, KeyValues& read);
  int64_t num_layers() const { return num_layers_; }

 private:
  const std::shared_ptr<Trunk> trunk_;
  Head head_;
  const int64_t num_layers_;  // of the whole
};

template <class Block, class Norm = LayerNorm, class Config>
std::shared_ptr<Decoder> make_decoder(const DecoderNames& names, const Config& config) {
  return std::make_shared<Decoder>(names, config,
                                   std::make_shared<TrunkOf<Block, Norm>>(names, config));
}

// What a decoder's activations follow from, beside its shape. Sizes are in elements.
struct DecoderSizes {
  double inner = 0;           // of a layer's widest activation, and its gradient
  double kept_per_token = 0;  // by a layer for its backward, dropout apart
  double kept_in_mlp = 0;     // of them, by the feed-forward and its norm
  double weights = 0;         // of a layer
  double mlp_weights = 0;     // of them, of the feed-forward
  // Tensors of the stream's size that each is given as a unit, of which the first pass
  // keeps copies.
  double given_to_attention = 1, given_to_mlp = 2;
  bool masks_stream = true;  // dropout of the stream, beside that of attention
  bool is_tied = true;       // the head is the embedding
  int64_t num_layers = 0;    // of this stage
  bool has_embed = true, has_head = true;
};

// Of blocks with a GeluMlp: attention keeps so many tensors of the stream's size, the
// feed-forward so many, and what is before and after its GELU.
DecoderSizes gelu_block_sizes(const DecoderConfig& config, int kept_in_attention,
                              int kept_in_mlp);

// Heads of keys and values, and what each has.
struct KeyValueHeads {
  int64_t count = 0, dim = 0;
};
inline KeyValueHeads key_value_heads(const DecoderConfig& config) {
  return {config.n_head, config.n_embd / config.n_head};
}

// Are embedding and head, of so many elements, units of their own? Smaller ones are not
// worth collectives.
bool are_units(bool is_tied, double numel);

// Estimate ModelFamily::activation_bytes, computed on a CPU.
ActivationBytes decoder_activation_bytes(const DecoderSizes& sizes,
                                         const ModelShape& shape, const PassShape& pass);

}  // namespace zero
