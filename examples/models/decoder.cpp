#include "examples/models/decoder.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "zero/chunked_loss.h"
#include "zero/errors.h"
#include "zero/layers.h"

namespace zero {
namespace {

namespace F = torch::nn::functional;

bool ends_are_units(const DecoderConfig& config) {
  const auto numel = static_cast<double>(config.vocab_size * config.n_embd);
  return are_units(config.has_tied_head, numel);
}

TokenEmbedding make_embedding(const DecoderConfig& config) {
  if (!config.parts.embed) return {};
  torch::nn::EmbeddingOptions options(config.vocab_size, config.n_embd);
  options.padding_idx(config.padding_idx);
  return TokenEmbedding(ends_are_units(config), options);
}

Head make_head(const DecoderConfig& config, const TokenEmbedding& embedding) {
  if (!config.parts.head) return {};
  if (config.has_tied_head)
    return Head(false, embedding->weight, config.has_head_bias, config.loss_chunk);
  return Head(ends_are_units(config), config.n_embd, config.vocab_size,
              config.has_head_bias, config.loss_chunk);
}

}  // namespace

bool are_units(bool is_tied, double numel) { return !is_tied && numel >= 1 << 20; }

void check_parts(const DecoderConfig& config) {
  const auto require = [](bool holds, const std::string& what, const std::string& cure) {
    if (!holds) throw Error(ExitCode::kUsage, what, "parts of the model", cure);
  };
  const DecoderParts& parts = config.parts;
  const int64_t first = config.first_layer(), end = config.end_layer();
  require(0 <= first && first <= end && end <= config.n_layer,
          "layers=" + std::to_string(first) + ":" + std::to_string(end) +
              " of a model with " + std::to_string(config.n_layer) + " layers",
          "layers=A:B with 0 <= A < B <= " + std::to_string(config.n_layer));
  require(parts.embed || parts.norm || parts.head || first < end, "the model has no part",
          "one of embed, layers=A:B, norm and head at least");
  require(!config.has_tied_head || parts.embed == parts.head,
          "embed and head are one tensor in this model, and only one of them is there",
          "both or neither; or tie_word_embeddings false, in a new model");
}

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
  if (!targets.defined()) return linear(hidden, weight, bias);
  // Logits that are no view may become their gradient.
  const at::Tensor loss =
      cross_entropy(F::linear(hidden.flatten(0, -2), weight, bias), targets.reshape(-1));
  return sum_of_chunks(loss.to(at::kFloat));
}

at::Tensor HeadImpl::target_scores(const at::Tensor& hidden, const at::Tensor& targets) {
  constexpr int64_t kMost = 256;
  // Tokens whose logits are there.
  const int64_t at_once = loss_chunk_ > 0 ? std::min(loss_chunk_, kMost) : kMost;
  const at::Tensor rows = hidden.flatten(0, -2), wanted = targets.flatten();
  const at::Tensor scores =
      at::zeros({wanted.size(0), 2}, rows.options().dtype(at::kFloat));
  for (int64_t begin = 0; begin < wanted.size(0); begin += at_once) {
    const auto part = [&](const at::Tensor& all) {
      return all.slice(0, begin, std::min(begin + at_once, wanted.size(0)));
    };
    const at::Tensor logits = F::linear(part(rows), weight, bias).to(at::kFloat);
    part(scores).select(1, 0).copy_(at::cross_entropy_loss(
        logits, part(wanted), {}, at::Reduction::None, /*ignore_index=*/-1));
    part(scores).select(1, 1).copy_(is_largest(logits, part(wanted)));
  }
  return scores.view({hidden.size(0), hidden.size(1), 2});
}

at::Tensor split_heads(const at::Tensor& x, int64_t num_heads) {
  return x.unflatten(-1, {num_heads, x.size(-1) / num_heads}).transpose(1, 2);
}

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const Positions& positions, double dropout) {
  const at::Tensor found =
      positions.read
          ? positions.read->attend(positions.layer, q, k, v, positions.window)
          : causal_attention(q, k, v, positions.document_ends, positions.window, dropout);
  return found.transpose(1, 2).flatten(2);
}

at::Tensor places_in(const at::Tensor& document_ends, int64_t length) {
  if (!document_ends.defined()) return {};
  const int64_t rows = document_ends.size(0);
  const at::Tensor places = torch::empty({rows, length}, torch::kLong);
  const auto end_of = document_ends.accessor<int64_t, 2>();
  auto place = places.accessor<int64_t, 2>();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0, at = 0; i < document_ends.size(1); ++i)
      for (int64_t begin = at; at < end_of[row][i]; ++at) place[row][at] = at - begin;
  }
  return places;
}

Trunk::Trunk(const DecoderNames& names, const DecoderConfig& config)
    : embedding(make_embedding(config)),
      windows_(config.windows.empty() ? std::vector<int64_t>(config.n_layer)
                                      : config.windows),
      rotary_(config.rotary) {
  check_parts(config);
  if (!embedding) return;
  register_module(names.embedding, embedding.ptr());
  if (config.n_positions > 0) {
    positions_ =
        register_module("wpe", torch::nn::Embedding(config.n_positions, config.n_embd));
  }
  if (names.dropout)
    dropout_ = register_module(names.dropout, torch::nn::Dropout(config.dropout));
}

at::Tensor Trunk::embed(const at::Tensor& inputs, const at::Tensor& places) {
  if (!embedding) return inputs;
  at::Tensor x = embedding(inputs);
  if (positions_)
    x = x + positions_(places.defined()
                           ? places.to(inputs.device())
                           : torch::arange(inputs.size(1), inputs.options()));
  return dropout_ ? dropout_(x) : x;
}

std::vector<Positions> Trunk::positions_in(const at::Tensor& x,
                                           const at::Tensor& document_ends,
                                           const at::Tensor& places, KeyValues* read) {
  // Of a text that grows not for every token anew.
  const int64_t length = read ? static_cast<int64_t>(std::bit_ceil(
                                    static_cast<uint64_t>(read->end_of_places())))
                              : x.size(1);
  RotaryAngles angles = rotary_.angles(length, x);
  if (places.defined() && angles.cos.defined()) {
    const at::Tensor rows = places.to(x.device()).flatten();
    for (at::Tensor* part : {&angles.cos, &angles.sin})
      *part = part->index_select(0, rows).view({x.size(0), x.size(1), -1});
  }
  std::vector<Positions> positions;
  for (const int64_t window : windows_)
    positions.push_back({angles, window, document_ends, read, std::ssize(positions)});
  return positions;
}

Decoder::Decoder(const DecoderNames& names, const DecoderConfig& config,
                 std::shared_ptr<Trunk> trunk)
    : trunk_(register_module(names.trunk, std::move(trunk))),
      head_(make_head(config, trunk_->embedding)),
      num_layers_(config.n_layer) {
  if (head_) register_module(names.head, head_.ptr());
}

at::Tensor Decoder::hidden(const at::Tensor& inputs, const at::Tensor& document_ends,
                           KeyValues* read) {
  return trunk_->forward(inputs, document_ends, read);
}

at::Tensor Decoder::logits_of(const at::Tensor& hidden) {
  return head_(hidden, at::Tensor());
}

at::Tensor Decoder::logits(const at::Tensor& inputs) { return logits_of(hidden(inputs)); }

at::Tensor Decoder::forward(const at::Tensor& inputs, const at::Tensor& targets,
                            const at::Tensor& document_ends) {
  const at::Tensor x = hidden(inputs, document_ends);
  return head_ ? head_(batched(x), batched(targets)) : x;
}

at::Tensor Decoder::target_scores(const at::Tensor& tokens, const at::Tensor& targets,
                                  const at::Tensor& document_ends) {
  const auto scores = [this](const at::Tensor& hidden, const at::Tensor& targets) {
    return head_->target_scores(hidden, targets);
  };
  return head_.run(scores, hidden(tokens, document_ends), targets);
}

at::Tensor Decoder::next_logits(const at::Tensor& tokens, KeyValues& read) {
  const at::Tensor x = hidden(tokens, at::Tensor(), &read);
  const at::Tensor last = read.last_tokens().to(x.device());
  return logits_of(x.index({torch::arange(x.size(0), last.options()), last}))
      .to(at::kFloat);
}

DecoderSizes gelu_block_sizes(const DecoderConfig& config, int kept_in_attention,
                              int kept_in_mlp) {
  const auto dim = static_cast<double>(config.n_embd);
  const auto inner = static_cast<double>(config.inner());
  return {.inner = inner,
          .kept_per_token = (kept_in_attention + kept_in_mlp) * dim + 2 * inner,
          .kept_in_mlp = kept_in_mlp * dim + 2 * inner,
          .weights = (4 * dim + 2 * inner) * dim,
          .mlp_weights = 2 * inner * dim,
          .is_tied = config.has_tied_head};
}

}  // namespace zero
