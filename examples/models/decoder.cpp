#include "examples/models/decoder.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/processor.h"
#include "zero/chunked_loss.h"
#include "zero/errors.h"
#include "zero/layers.h"
#include "zero/reports.h"

namespace zero {
namespace {

namespace F = torch::nn::functional;

// Smaller ends are not worth collectives of their own.
bool are_units(bool is_tied, double numel) { return !is_tied && numel >= 1 << 20; }

bool are_units(const DecoderConfig& config) {
  const auto numel = static_cast<double>(config.vocab_size * config.n_embd);
  return are_units(config.has_tied_head, numel);
}

TokenEmbedding make_embedding(const DecoderConfig& config) {
  if (!config.parts.embed) return {};
  torch::nn::EmbeddingOptions options(config.vocab_size, config.n_embd);
  options.padding_idx(config.padding_idx);
  return TokenEmbedding(are_units(config), options);
}

Head make_head(const DecoderConfig& config, const TokenEmbedding& embedding) {
  if (!config.parts.head) return {};
  if (config.has_tied_head)
    return Head(false, embedding->weight, config.has_head_bias, config.loss_chunk);
  return Head(are_units(config), config.n_embd, config.vocab_size, config.has_head_bias,
              config.loss_chunk);
}

// What torch keeps of a pass, as sizes of (rows, columns) tensors.
class Activations {
 public:
  Activations(const DecoderSizes& sizes, const ModelShape& shape, const PassShape& pass)
      : sizes_(sizes),
        pass_(pass),
        tokens_(static_cast<double>(pass.rows * shape.seq_len)),
        unit_tokens_(static_cast<double>(pass.rows_in_units * shape.seq_len)),
        dim_(static_cast<double>(shape.dim())),
        num_heads_(static_cast<double>(shape.heads())),
        vocab_(static_cast<double>(shape.vocab())),
        seq_len_(static_cast<double>(shape.seq_len)),
        head_tokens_(are_units(sizes.is_tied, vocab_ * dim_) ? unit_tokens_ : tokens_),
        chunk_(std::min(static_cast<double>(shape.loss_chunk), head_tokens_)),
        drops_(shape.dropout > 0),
        units_(units_of_a_block(shape.sublayers)),
        num_units_(sizes.num_layers * std::ssize(units_)) {}

  // In the host's memory: what the units that recompute were given.
  double offloaded() const {
    return pass_.offloads ? num_given(num_units_) * stream(tokens_) : 0;
  }

  double peak() const {
    return std::max({loss(), last_block(), unit_gradients(), embedding()});
  }

 private:
  // A block's, or one of its halves.
  struct Unit {
    double kept;     // bytes of a token, for its backward
    double given;    // tensors of the stream's size
    double width;    // elements of a token's widest gradient
    double weights;  // elements
  };
  // In the model's order.
  std::vector<Unit> units_of_a_block(bool sublayers) const {
    const double num_blocks = std::max<double>(1, static_cast<double>(sizes_.num_layers));
    const double of_adapters = static_cast<double>(pass_.kept_by_adapters) / num_blocks;
    // Either half's: a mask, and as much of what the adapters keep.
    const double beside =
        (drops_ && sizes_.masks_stream ? stream(1) : 0) + of_adapters / 2;
    const double of_mlp = sizes_.kept_in_mlp * pass_.element_bytes + beside;
    const double of_attention =
        (sizes_.kept_per_token - sizes_.kept_in_mlp) * pass_.element_bytes +
        attention_weights() + beside;
    if (!sublayers) return {{of_attention + of_mlp, 1, sizes_.inner, sizes_.weights}};
    // Graphs hold what one half gives the other beside the stream.
    const double given = sizes_.given_to_attention + sizes_.given_to_mlp;
    const double held = given > 2 ? stream(1) : 0;
    return {{of_attention, sizes_.given_to_attention, 3 * dim_,
             sizes_.weights - sizes_.mlp_weights},
            {of_mlp + held, sizes_.given_to_mlp, sizes_.inner, sizes_.mlp_weights}};
  }

  // (tokens, dim), as it goes from block to block
  double stream(double tokens) const { return tokens * dim_ * pass_.element_bytes; }
  double head_weights() const { return vocab_ * dim_ * pass_.element_bytes; }
  // The gradient of a tied head waits for that of the embedding.
  double waiting_head() const {
    return sizes_.is_tied && sizes_.has_head ? head_weights() : 0;
  }
  // Of a token: the sums of its exponentials. With dropout attention is computed as a
  // whole, (heads, seq_len) for each token: its weights before and after, and what was
  // dropped, with fp32 between in lower precision.
  double attention_weights() const {
    const double widened = pass_.element_bytes == 4 ? 0 : 8;
    return drops_ ? num_heads_ * seq_len_ * (3 * pass_.element_bytes + widened)
                  : num_heads_ * 4;
  }
  // Is it one of those, in the model's order?
  bool recomputes(int64_t unit) const {
    return pass_.recompute_every > 0 && unit % pass_.recompute_every == 0;
  }
  const Unit& unit_at(int64_t unit) const { return units_[unit % std::ssize(units_)]; }
  // Tensors of the stream's size that were given to those of the first units that
  // recompute.
  double num_given(int64_t num_units) const {
    double given = 0;
    for (int64_t u = 0; u < num_units; ++u) given += recomputes(u) ? unit_at(u).given : 0;
    return given;
  }
  // Between the units: inputs of those that recompute, and what the others keep.
  double kept(int64_t num_units) const {
    double bytes = stream(tokens_);
    double num_inputs = num_given(num_units_);
    if (pass_.offloads) num_inputs = std::min(num_inputs, num_resident());
    for (int64_t u = 0; u < num_units; ++u)
      bytes += recomputes(u) ? 0 : tokens_ * unit_at(u).kept;
    return bytes + num_inputs * stream(tokens_);
  }
  // Of the calls whose inputs are on the device as well.
  double num_resident() const {
    double given = 0;
    for (const Unit& unit : units_) given = std::max(given, unit.given);
    return kNumResidentCalls * given;
  }

  // A head that is a unit and works on rows by and by keeps what its backward needs for
  // all of them where it does not recompute: it comes after the embedding and the blocks.
  double num_kept_heads() const {
    return recomputes(num_units_ + 1) ? 1 : tokens_ / head_tokens_;
  }
  // The gradients of its weights from the rows before, in fp32.
  double head_sum() const { return head_tokens_ < tokens_ ? 4 * vocab_ * dim_ : 0; }
  // The logits, which become their gradient, and the gradients of stream and head.
  double loss() const {
    if (!sizes_.has_head) return 0;
    if (chunk_ > 0) return chunked_loss();
    const double scores = head_tokens_ * vocab_;
    return kept(num_units_) + 2 * stream(tokens_) +
           num_kept_heads() * pass_.element_bytes * scores + head_weights() + head_sum();
  }
  // In chunks: the logits of one, which become their gradient, and on a CPU its fp32; the
  // gradients of the stream and, in fp32 until it is handed over, of the head.
  double chunked_loss() const {
    const bool is_fp32 = pass_.element_bytes == 4;
    const double widened = is_fp32 || pass_.on_gpu ? 0 : 4;
    const double scores = chunk_ * vocab_ * (pass_.element_bytes + widened);
    const double handed_over = is_fp32 ? 0 : head_weights();
    return kept(num_units_) + 2 * stream(tokens_) + 4 * num_kept_heads() * vocab_ * dim_ +
           head_sum() + std::max(scores, handed_over);
  }
  // The GELU's gradient beside all that the last block keeps.
  double last_block() const {
    if (num_units_ == 0) return 0;
    double largest = 0;
    for (int64_t u = num_units_ - std::ssize(units_); u < num_units_; ++u) {
      const Unit& unit = unit_at(u);
      const double recomputed =
          recomputes(u) ? unit_tokens_ * unit.kept - stream(unit_tokens_) : 0;
      const double gradients = (unit_tokens_ + dim_) * unit.width * pass_.element_bytes +
                               unit_tokens_ * static_cast<double>(pass_.made_by_adapter);
      largest = std::max(largest, recomputed + gradients);
    }
    return kept(num_units_) + joined() + scratch() + 2 * stream(unit_tokens_) +
           waiting_head() + largest;
  }
  double unit_gradients() const {
    if (num_units_ == 0) return 0;
    double weights = 0;
    for (const Unit& unit : units_) weights = std::max(weights, unit.weights);
    return kept(num_units_ - 1) + weights * pass_.element_bytes + 2 * stream(tokens_) +
           waiting_head();
  }
  // The embedding's gradient, and of a tied head its own and their sum, which takes the
  // place of one that was made in chunks.
  double embedding() const {
    if (!sizes_.has_embed) return 0;
    const double num_gradients = sizes_.is_tied ? (chunk_ > 0 ? 2 : 3) : 1;
    return num_gradients * head_weights() + 2 * stream(tokens_);
  }
  // What joins the rows that went through a unit by and by.
  double joined() const {
    return pass_.rows > pass_.rows_in_units ? 4 * stream(tokens_) : 0;
  }
  // oneDNN's products in bf16 take this at least: 58 KiB with AMX, 64 with AVX-512, 114
  // with its instructions for bf16.
  double scratch() const {
    return pass_.element_bytes == 2 && onednn_has_16_bits() ? 96 << 10 : 0;
  }

  const DecoderSizes sizes_;
  const PassShape pass_;
  const double tokens_, unit_tokens_, dim_, num_heads_, vocab_, seq_len_, head_tokens_,
      chunk_;
  const bool drops_;
  const std::vector<Unit> units_;
  const int64_t num_units_;  // of this stage's blocks
};

}  // namespace

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
    part(scores).select(1, 1).copy_(logits.argmax(1).eq(part(wanted)));
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

ActivationBytes decoder_activation_bytes(const DecoderSizes& sizes,
                                         const ModelShape& shape, const PassShape& pass) {
  const auto bytes = [](double number) {
    constexpr double kMost = 1e18;
    return static_cast<int64_t>(std::min(number, kMost));
  };
  const Activations activations(sizes, shape, pass);
  return {bytes(activations.peak()), bytes(activations.offloaded())};
}

}  // namespace zero
