// The launcher's verbs for a mixture of experts: blocks whose tokens go through one of
// several experts each, so that the sizes of products differ from pass to pass. Its bytes
// are learned without attention: each token from the one before it.
//
//   mixture_of_experts train --ranks 2 --data my_text/ --out runs/experts
#include <torch/torch.h>
#include <zero/unit.h>

#include <algorithm>

#include "launcher/launch.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

// One up and one down projection for each expert.
struct ExpertsImpl : nn::Module {
  ExpertsImpl(int64_t dim, int64_t ffn_dim, int64_t count)
      : norm(register_module("norm", nn::LayerNorm(nn::LayerNormOptions({dim})))),
        router(register_module("router",
                               nn::Linear(nn::LinearOptions(dim, count).bias(false)))),
        up(register_module("up", nn::ModuleList())),
        down(register_module("down", nn::ModuleList())) {
    for (int64_t i = 0; i < count; ++i) {
      up->push_back(nn::Linear(dim, ffn_dim));
      down->push_back(nn::Linear(ffn_dim, dim));
    }
  }
  // (tokens, dim). An expert without tokens gets gradients of zero.
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor normed = norm(x);
    const auto [weight, chosen] = router(normed).softmax(-1).max(-1);
    at::Tensor sum = x;
    for (size_t i = 0; i < up->size(); ++i) {
      const at::Tensor rows = chosen.eq(static_cast<int64_t>(i)).nonzero().flatten();
      const at::Tensor inner =
          F::gelu(up[i]->as<nn::Linear>()->forward(normed.index_select(0, rows)));
      const at::Tensor outer = down[i]->as<nn::Linear>()->forward(inner);
      sum = sum.index_add(0, rows, outer * weight.index_select(0, rows).unsqueeze(1));
    }
    return sum;
  }
  nn::LayerNorm norm;
  nn::Linear router;
  nn::ModuleList up, down;
};

struct ModelImpl : nn::Module {
  explicit ModelImpl(const zero::ModelShape& shape)
      : embedding(
            register_module("embedding", nn::Embedding(shape.vocab(), shape.dim()))),
        blocks(register_module("blocks", zero::UnitList<ExpertsImpl>())),
        head(register_module("head", nn::Linear(shape.dim(), shape.vocab()))) {
    for (int64_t i = 0; i < shape.layers(); ++i)
      blocks->push_back(zero::Unit<ExpertsImpl>(shape.dim(), shape.ffn_dim(),
                                                shape.integer("num_experts")));
  }
  at::Tensor forward(const at::Tensor& tokens) {  // any shape -> (tokens, vocab)
    at::Tensor x = embedding(tokens.flatten());
    for (auto& block : *blocks) x = block.value()(x);
    return head(x);
  }
  nn::Embedding embedding;
  zero::UnitList<ExpertsImpl> blocks;
  nn::Linear head;
};

class MixtureOfExperts : public zero::LanguageModel {
 public:
  explicit MixtureOfExperts(const zero::ModelShape& shape)
      : model_(std::make_shared<ModelImpl>(shape)) {}
  std::shared_ptr<nn::Module> module() override { return model_; }
  at::Tensor loss_sum(const at::Tensor& tokens, const at::Tensor& targets) override {
    return F::cross_entropy(
        model_->forward(tokens).to(at::kFloat), targets.flatten(),
        F::CrossEntropyFuncOptions().ignore_index(-1).reduction(torch::kSum));
  }
  at::Tensor next_logits(const at::Tensor& tokens) override {
    return model_->forward(tokens.select(1, -1)).to(at::kFloat);
  }

 private:
  std::shared_ptr<ModelImpl> model_;
};

// At the worst moment, the backward of a block: inputs of all blocks, what the block
// keeps and those that do not recompute, gradients of the same, and those of its weights.
zero::ActivationBytes activation_bytes(const zero::ModelShape& shape,
                                       const zero::PassShape& pass) {
  const int64_t tokens = pass.rows * shape.seq_len, dim = shape.dim(),
                ffn_dim = shape.ffn_dim();
  const int64_t kept = tokens * (4 * dim + 2 * ffn_dim);
  const int64_t of_backward = tokens * (3 * dim + 2 * ffn_dim);
  const int64_t weights = shape.integer("num_experts") * 2 * dim * ffn_dim;
  const int64_t every = pass.recompute_every;
  const int64_t num_recomputed = every == 0 ? 0 : (shape.layers() + every - 1) / every;
  const int64_t num_kept =
      shape.layers() - num_recomputed + std::min<int64_t>(1, num_recomputed);
  return {pass.element_bytes *
          (shape.layers() * tokens * dim + num_kept * kept + of_backward + weights)};
}

int main(int argc, char** argv) {
  zero::ModelFamily family;
  family.name = "experts";
  family.keys = {.layers = "num_layers",
                 .dim = "dim",
                 .ffn_dim = "ffn_dim",
                 .positions = "positions"};
  family.presets = {{"experts-51m",
                     {{"num_layers", 3},
                      {"dim", 512},
                      {"ffn_dim", 2048},
                      {"num_experts", 8},
                      {"positions", 256}}}};
  family.default_preset = "experts-51m";
  family.make = [](const zero::ModelShape& shape) {
    return std::make_unique<MixtureOfExperts>(shape);
  };
  family.init_rules = [](const zero::ModelShape&) { return zero::InitRules{}; };
  family.activation_bytes = activation_bytes;
  family.has_new_shapes = true;
  return zero::launch(argc, argv, {family});
}
