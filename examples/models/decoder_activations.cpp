#include <algorithm>
#include <cmath>

#include "base/processor.h"
#include "examples/models/decoder.h"
#include "zero/reports.h"

namespace zero {
namespace {

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
    // Either half's: a mask, and as much of what a block's adapters keep.
    const double num_halves = std::max(1.0, 2.0 * static_cast<double>(sizes_.num_layers));
    const double beside = (drops_ && sizes_.masks_stream ? stream(1) : 0) +
                          static_cast<double>(pass_.kept_by_adapters) / num_halves;
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

ActivationBytes decoder_activation_bytes(const DecoderSizes& sizes,
                                         const ModelShape& shape, const PassShape& pass) {
  const Activations activations(sizes, shape, pass);
  return activation_bytes_of(activations.peak(), activations.offloaded());
}

}  // namespace zero
