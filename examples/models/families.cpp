#include "examples/models/families.h"

#include <torch/torch.h>

#include <cstdio>

#include "checkpoint/json.h"

namespace zero {
namespace {

class DecoderLanguageModel : public DocumentModel,
                             public ScoringModel,
                             public ReadingModel {
 public:
  explicit DecoderLanguageModel(std::shared_ptr<Decoder> decoder)
      : decoder_(std::move(decoder)) {}

  std::shared_ptr<torch::nn::Module> module() override { return decoder_; }
  at::Tensor loss_sum(const at::Tensor& tokens, const at::Tensor& targets) override {
    return decoder_->forward(tokens, targets);
  }
  at::Tensor packed_loss_sum(const at::Tensor& tokens, const at::Tensor& targets,
                             const at::Tensor& document_ends) override {
    return decoder_->forward(tokens, targets, document_ends);
  }
  at::Tensor target_scores(const at::Tensor& tokens, const at::Tensor& targets,
                           const at::Tensor& document_ends) override {
    return decoder_->target_scores(tokens, targets, document_ends);
  }
  at::Tensor next_logits(const at::Tensor& tokens) override {
    return decoder_->logits_of(decoder_->hidden(tokens).select(1, -1)).to(at::kFloat);
  }
  std::shared_ptr<KeyValues> begin_reading(int64_t rows) override {
    return std::make_shared<KeyValues>(rows, decoder_->num_layers());
  }
  at::Tensor next_logits(const at::Tensor& tokens, KeyValues& read) override {
    return decoder_->next_logits(tokens, read);
  }

 private:
  std::shared_ptr<Decoder> decoder_;
};

// False: it is no part, or one that is there already.
bool add_part(DecoderParts& parts, const std::string& word) {
  for (const auto& [name, part] :
       {std::pair("embed", &parts.embed), {"norm", &parts.norm}, {"head", &parts.head}}) {
    if (word == name) return !std::exchange(*part, true);
  }
  int first = 0, end = 0, length = 0;
  const bool is_range =
      word.find_first_of(" \t+") == std::string::npos &&
      std::sscanf(word.c_str(), "layers=%5d:%5d%n", &first, &end, &length) == 2 &&
      length == std::ssize(word) && parts.end_layer == 0 && first < end;
  if (is_range) parts.first_layer = first, parts.end_layer = end;
  return is_range;
}

DecoderParts read_parts(const ConfigReader& config) {
  if (!config.has(kParts)) return {};
  DecoderParts parts{.embed = false, .norm = false, .head = false, .end_layer = 0};
  for (const std::string& word : config.texts(kParts)) {
    config.require(
        add_part(parts, word), "parts has " + checkpoint::shown(word),
        "a list of embed, layers=A:B (layers A to B - 1), norm and head, each once");
  }
  return parts;
}

}  // namespace

ModelFamilies example_families() {
  return {gpt2_family(), llama_family(), gptj_family(), gpt_neox_family()};
}

DecoderConfig read_decoder(const ConfigReader& config, const ModelShape& shape,
                           const std::string& norm_epsilon_key) {
  const ConfigKeys& keys = shape.keys;
  DecoderConfig decoder;
  decoder.vocab_size = config.integer("vocab_size", 1, 1 << 30);
  decoder.n_embd = config.integer(keys.dim);
  decoder.n_layer = config.integer(keys.layers, 1, 1 << 14);
  decoder.n_head = config.integer(keys.heads, 1, 1 << 16);
  decoder.n_inner = config.integer_or(keys.ffn_dim, 0, 1, 1 << 26);
  config.integer(keys.positions, 1, 1 << 30);  // samples are as long
  decoder.n_positions = 0;
  decoder.norm_epsilon = config.number(norm_epsilon_key, 0, 1);
  decoder.initializer_range = config.number("initializer_range", 0, 1e3);
  decoder.has_tied_head = config.boolean("tie_word_embeddings");
  decoder.dropout = shape.dropout;
  decoder.loss_chunk = shape.loss_chunk;
  decoder.parts = read_parts(config);
  check_parts(decoder);
  decoder.sublayers = shape.sublayers;
  return decoder;
}

int64_t read_head_dim(const ConfigReader& config, const ModelShape& shape,
                      const DecoderConfig& decoder, const std::string& others) {
  config.require(decoder.n_embd % decoder.n_head == 0,
                 shape.keys.dim + " " + std::to_string(decoder.n_embd) +
                     " does not divide into " + std::to_string(decoder.n_head) + " heads",
                 "a multiple of " + shape.keys.heads + others);
  return decoder.n_embd / decoder.n_head;
}

DecoderSizes of_stage(DecoderSizes sizes, const DecoderConfig& config) {
  sizes.num_layers = config.end_layer() - config.first_layer();
  sizes.has_embed = config.parts.embed;
  sizes.has_head = config.parts.head;
  return sizes;
}

int64_t decoder_key_value_bytes(const DecoderConfig& config, const KeyValueHeads& heads,
                                const TextsAtOnce& texts, int64_t element_bytes) {
  int64_t tokens = 0;  // of all layers
  for (int64_t layer = config.first_layer(); layer < config.end_layer(); ++layer) {
    const int64_t window = config.windows.empty() ? 0 : config.windows[layer];
    tokens += window > 0 ? std::min(window, texts.tokens) : texts.tokens;
  }
  return 2 * texts.rows * tokens * heads.count * heads.dim * element_bytes;
}

std::unique_ptr<LanguageModel> as_language_model(std::shared_ptr<Decoder> decoder) {
  return std::make_unique<DecoderLanguageModel>(std::move(decoder));
}

}  // namespace zero
