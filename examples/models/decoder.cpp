#include "examples/models/decoder.h"

#include "zero/chunked_loss.h"

namespace zero {
namespace {

namespace F = torch::nn::functional;

// Smaller ends are not worth collectives of their own.
bool are_units(const DecoderEnds& ends) {
  constexpr int64_t kLarge = 1 << 20;
  return !ends.are_tied && ends.vocab * ends.dim >= kLarge;
}

}  // namespace

HeadImpl::HeadImpl(int64_t dim, int64_t vocab, bool has_bias, int64_t loss_chunk)
    : HeadImpl(torch::empty({vocab, dim}), has_bias, loss_chunk) {}

HeadImpl::HeadImpl(const at::Tensor& embedding, bool has_bias, int64_t loss_chunk)
    : loss_chunk_(loss_chunk) {
  weight = register_parameter("weight", embedding);
  if (has_bias) bias = register_parameter("bias", torch::empty({weight.size(0)}));
}

at::Tensor HeadImpl::forward(const at::Tensor& hidden, const at::Tensor& targets) {
  if (targets.defined() && loss_chunk_ > 0) {
    return sum_of_chunks(chunked_loss(hidden, weight, bias, targets, loss_chunk_));
  }
  const at::Tensor scores = F::linear(hidden, weight, bias);
  if (!targets.defined()) return scores;
  return sum_of_chunks(F::cross_entropy(
      scores.to(at::kFloat).view({-1, scores.size(-1)}), targets.reshape(-1),
      F::CrossEntropyFuncOptions().ignore_index(-1).reduction(torch::kSum)));
}

TokenEmbedding make_embedding(const DecoderEnds& ends) {
  torch::nn::EmbeddingOptions options(ends.vocab, ends.dim);
  options.padding_idx(ends.padding_idx);
  return TokenEmbedding(are_units(ends), options);
}

Head make_head(const DecoderEnds& ends, const TokenEmbedding& embedding) {
  if (ends.are_tied)
    return Head(false, embedding->weight, ends.head_has_bias, ends.loss_chunk);
  return Head(are_units(ends), ends.dim, ends.vocab, ends.head_has_bias, ends.loss_chunk);
}

at::Tensor window_mask(int64_t length, int64_t window, c10::Device device) {
  if (window <= 0 || window >= length) return {};
  const at::Tensor positions = torch::arange(length, device);
  const at::Tensor behind = positions.unsqueeze(1) - positions;  // of a query to a key
  return (behind >= 0).logical_and(behind < window);
}

at::Tensor split_heads(const at::Tensor& x, int64_t num_heads) {
  return x.unflatten(-1, {num_heads, x.size(-1) / num_heads}).transpose(1, 2);
}

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const at::Tensor& mask, double dropout) {
  const int64_t group = q.size(1) / k.size(1);
  const auto repeated = [&](const at::Tensor& x) {
    return group == 1 ? x : x.unsqueeze(2).expand({-1, -1, group, -1, -1}).flatten(1, 2);
  };
  const std::optional<at::Tensor> seen =
      mask.defined() ? std::optional(mask) : std::nullopt;
  return at::scaled_dot_product_attention(q, repeated(k), repeated(v), seen, dropout,
                                          /*is_causal=*/!mask.defined())
      .transpose(1, 2)
      .flatten(2);
}

at::Tensor Decoder::logits_of(const at::Tensor& hidden) {
  return head_(hidden, at::Tensor());
}

at::Tensor Decoder::logits(const at::Tensor& tokens) { return logits_of(hidden(tokens)); }

at::Tensor Decoder::forward(const at::Tensor& tokens, const at::Tensor& targets) {
  return head_(hidden(tokens), targets);
}

}  // namespace zero
