#include "examples/models/families.h"

#include <torch/torch.h>

#include "examples/models/gpt2.h"
#include "examples/models/gpt2_memory.h"

namespace zero {
namespace {

Gpt2Config gpt2_config(const ModelShape& shape) {
  Gpt2Config config;
  config.n_layer = shape.layers;
  config.n_head = shape.heads;
  config.n_embd = shape.dim;
  config.n_inner = shape.ffn_dim;
  config.n_positions = shape.seq_len;
  config.vocab_size = shape.vocab;
  config.dropout = shape.dropout;
  config.loss_chunk = shape.loss_chunk;
  return config;
}

class Gpt2LanguageModel : public LanguageModel {
 public:
  explicit Gpt2LanguageModel(const ModelShape& shape)
      : model_(std::make_shared<Gpt2Impl>(gpt2_config(shape))) {}

  std::shared_ptr<torch::nn::Module> module() override { return model_; }
  at::Tensor loss_sum(const at::Tensor& tokens, const at::Tensor& targets) override {
    return model_->forward(tokens, targets);
  }
  at::Tensor next_logits(const at::Tensor& tokens) override {
    const at::Tensor hidden = model_->transformer->forward(tokens);
    return model_->lm_head->forward(hidden.select(1, -1)).to(at::kFloat);
  }

 private:
  std::shared_ptr<Gpt2Impl> model_;
};

ModelShape gpt2_shape(int64_t layers, int64_t dim, int64_t heads, int64_t vocab,
                      int64_t seq_len) {
  ModelShape shape;
  shape.layers = layers;
  shape.dim = dim;
  shape.heads = heads;
  shape.vocab = vocab;
  shape.seq_len = seq_len;
  return shape;
}

ModelFamily gpt2_family() {
  ModelFamily family;
  family.name = "gpt2";
  family.default_preset = "gpt2-10m";
  family.presets = {{"gpt2-tiny", gpt2_shape(3, 64, 4, 0, 32)},
                    {"gpt2-10m", gpt2_shape(6, 384, 6, 0, 256)},
                    {"gpt2-124m", gpt2_shape(12, 768, 12, 50257, 1024)},
                    {"gpt2-350m", gpt2_shape(24, 1024, 16, 50257, 1024)},
                    {"gpt2-774m", gpt2_shape(36, 1280, 20, 50257, 1024)},
                    {"gpt2-1.5b", gpt2_shape(48, 1600, 25, 50257, 1024)}};
  family.make = [](const ModelShape& shape) {
    return std::make_unique<Gpt2LanguageModel>(shape);
  };
  family.init_rules = [](const ModelShape& shape) {
    return gpt2_init_rules(gpt2_config(shape));
  };
  family.activation_bytes = gpt2_activation_bytes;
  return family;
}

}  // namespace

ModelFamilies example_families() { return {gpt2_family()}; }

}  // namespace zero
