// The verbs of the command line for own models: a token's successor from the token alone,
// and the class of an image from a sum over its pixels.
#include <torch/torch.h>

#include "engine/unit.h"
#include "launcher/launch.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

struct BigramImpl : nn::Module {
  BigramImpl(int64_t vocab, int64_t dim)
      : embedding(
            register_module("embedding", zero::Unit<nn::EmbeddingImpl>(vocab, dim))),
        head(register_module("head", zero::Unit<nn::LinearImpl>(dim, vocab))) {}
  at::Tensor forward(const at::Tensor& tokens) { return head(embedding(tokens)); }
  zero::Unit<nn::EmbeddingImpl> embedding;
  zero::Unit<nn::LinearImpl> head;
};

class Bigram : public zero::LanguageModel {
 public:
  explicit Bigram(const zero::ModelShape& shape)
      : model_(std::make_shared<BigramImpl>(shape.vocab(), shape.dim())) {}
  std::shared_ptr<nn::Module> module() override { return model_; }
  at::Tensor loss_sum(const at::Tensor& tokens, const at::Tensor& targets) override {
    return F::cross_entropy(
        model_->forward(tokens).flatten(0, 1), targets.flatten(),
        F::CrossEntropyFuncOptions().ignore_index(-1).reduction(torch::kSum));
  }
  at::Tensor next_logits(const at::Tensor& tokens) override {
    return model_->forward(tokens.select(1, -1));
  }

 private:
  std::shared_ptr<BigramImpl> model_;
};

struct PixelsImpl : nn::Module {
  PixelsImpl(int64_t size, int64_t classes)
      : head(register_module("head",
                             zero::Unit<nn::LinearImpl>(3 * size * size, classes))) {}
  at::Tensor forward(const at::Tensor& images) { return head(images.flatten(1)); }
  zero::Unit<nn::LinearImpl> head;
};

class Pixels : public zero::ImageModel {
 public:
  explicit Pixels(const zero::ModelShape& shape)
      : model_(std::make_shared<PixelsImpl>(shape.image_size(), shape.vocab())) {}
  std::shared_ptr<nn::Module> module() override { return model_; }
  at::Tensor loss_sum(const at::Tensor& images, const at::Tensor& classes) override {
    return F::cross_entropy(
        logits(images), classes.flatten(),
        F::CrossEntropyFuncOptions().ignore_index(-1).reduction(torch::kSum));
  }
  at::Tensor logits(const at::Tensor& images) override {
    return model_->forward(images).to(at::kFloat);
  }

 private:
  std::shared_ptr<PixelsImpl> model_;
};

// First values are torch's usual ones.
template <class Own>
void make_of(zero::ModelFamily& family) {
  family.make = [](const zero::ModelShape& shape) {
    return std::make_unique<Own>(shape);
  };
  family.init_rules = [](const zero::ModelShape&) { return zero::InitRules{}; };
}

zero::ModelFamily bigram_family() {
  zero::ModelFamily family;
  family.name = "bigram";
  family.keys = {.dim = "dim", .positions = "positions"};
  family.presets = {{"bigram-small", {{"dim", 32}, {"positions", 16}}}};
  family.default_preset = "bigram-small";
  make_of<Bigram>(family);
  return family;
}

zero::ModelFamily pixels_family() {
  zero::ModelFamily family;
  family.name = "pixels";
  family.task = zero::Task::kImages;
  family.keys = {.vocab = "num_classes", .image_size = "image_size"};
  family.presets = {{"pixels-small", {{"num_classes", nullptr}, {"image_size", 8}}}};
  family.default_preset = "pixels-small";
  make_of<Pixels>(family);
  return family;
}

int main(int argc, char** argv) {
  return zero::launch(argc, argv, {bigram_family(), pixels_family()});
}
