// The verbs of the command line for an own model: a token's successor from the token
// alone.
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

int main(int argc, char** argv) {
  zero::ModelFamily family;
  family.name = "bigram";
  family.keys = {.dim = "dim", .positions = "positions"};
  family.presets = {{"bigram-small", {{"dim", 32}, {"positions", 16}}}};
  family.default_preset = "bigram-small";
  family.make = [](const zero::ModelShape& shape) {
    return std::make_unique<Bigram>(shape);
  };
  // torch's usual ones.
  family.init_rules = [](const zero::ModelShape&) { return zero::InitRules{}; };
  return zero::launch(argc, argv, {family});
}
