// The launcher's verbs for an own language model, which reads each token of a text once;
// docs/models.md tells what else a family may have.
//
//   mpirun -n 2 language_model train --data my_text/ --out runs/own
//   language_model generate runs/own --prompt "The "
#include <torch/torch.h>
#include <zero/key_values.h>
#include <zero/layers.h>
#include <zero/unit.h>

#include "launcher/launch.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

// Which layer it is, and of whose tokens keys and values are there; null: of none.
struct Place {
  zero::KeyValues* read;
  int64_t layer;
  void visit_tensors(auto&&) {}  // units look for tensors of their arguments: none
};

struct BlockImpl : nn::Module {
  BlockImpl(int64_t dim, int64_t heads)
      : heads(heads),
        norm_1(register_module("norm_1", nn::LayerNorm(nn::LayerNormOptions({dim})))),
        qkv(register_module("qkv", nn::Linear(dim, 3 * dim))),
        out(register_module("out", nn::Linear(dim, dim))),
        norm_2(register_module("norm_2", nn::LayerNorm(nn::LayerNormOptions({dim})))),
        up(register_module("up", nn::Linear(dim, 4 * dim))),
        down(register_module("down", nn::Linear(4 * dim, dim))) {}
  at::Tensor forward(const at::Tensor& x, const Place& place) {  // (rows, tokens, dim)
    const auto parts = qkv(norm_1(x))
                           .view({x.size(0), x.size(1), 3 * heads, -1})
                           .transpose(1, 2)
                           .chunk(3, 1);  // each (rows, heads, tokens, dim / heads)
    // Behind tokens that were read, the new ones alone come here.
    const at::Tensor mixed =
        place.read ? place.read->attend(place.layer, parts[0], parts[1], parts[2],
                                        /*window=*/0)
                   : zero::causal_attention(parts[0], parts[1], parts[2]);
    const at::Tensor y = x + out(mixed.transpose(1, 2).reshape(x.sizes()));
    return y + down(F::gelu(up(norm_2(y))));
  }
  const int64_t heads;
  nn::LayerNorm norm_1;
  nn::Linear qkv, out;
  nn::LayerNorm norm_2;
  nn::Linear up, down;
};

struct ModelImpl : nn::Module {
  explicit ModelImpl(const zero::ModelShape& shape)
      : tokens(register_module("tokens", nn::Embedding(shape.vocab(), shape.dim()))),
        positions(register_module(
            "positions", nn::Embedding(shape.integer("positions"), shape.dim()))),
        blocks(register_module("blocks", zero::UnitList<BlockImpl>())),
        head(register_module("head", nn::Linear(shape.dim(), shape.vocab()))) {
    for (int64_t i = 0; i < shape.layers(); ++i)
      blocks->push_back(zero::Unit<BlockImpl>(shape.dim(), shape.heads()));
  }
  // (rows, length) -> (rows, length, dim)
  at::Tensor hidden(const at::Tensor& text, zero::KeyValues* read) {
    const at::Tensor places = read ? read->places().to(text.device())
                                   : torch::arange(text.size(1), text.options());
    at::Tensor x = tokens(text) + positions(places);
    int64_t layer = 0;
    for (auto& block : *blocks) x = block.value()(x, Place{read, layer++});
    return x;
  }
  nn::Embedding tokens, positions;
  zero::UnitList<BlockImpl> blocks;
  nn::Linear head;
};

class OwnModel : public zero::LanguageModel, public zero::ReadingModel {
 public:
  explicit OwnModel(const zero::ModelShape& shape)
      : model_(std::make_shared<ModelImpl>(shape)) {}
  std::shared_ptr<nn::Module> module() override { return model_; }
  at::Tensor loss_sum(const at::Tensor& tokens, const at::Tensor& targets) override {
    return F::cross_entropy(
        model_->head(model_->hidden(tokens, nullptr)).flatten(0, 1).to(at::kFloat),
        targets.flatten(),
        F::CrossEntropyFuncOptions().ignore_index(-1).reduction(torch::kSum));
  }

  // Of a text that is read as a whole.
  at::Tensor next_logits(const at::Tensor& tokens) override {
    return model_->head(model_->hidden(tokens, nullptr).select(1, -1)).to(at::kFloat);
  }

  // Of texts that grow: what comes is read behind what was read, and rows may get fewer
  // tokens than others.
  std::shared_ptr<zero::KeyValues> begin_reading(int64_t rows) override {
    return std::make_shared<zero::KeyValues>(rows, model_->blocks->size());
  }
  at::Tensor next_logits(const at::Tensor& tokens, zero::KeyValues& read) override {
    const at::Tensor x = model_->hidden(tokens, &read);
    const at::Tensor last = read.last_tokens().to(x.device());
    return model_->head(x.index({torch::arange(x.size(0), last.options()), last}))
        .to(at::kFloat);
  }

 private:
  std::shared_ptr<ModelImpl> model_;
};

int main(int argc, char** argv) {
  zero::ModelFamily family;
  family.name = "own";
  family.keys = {
      .layers = "layers", .dim = "dim", .heads = "heads", .positions = "positions"};
  family.presets = {
      {"own-small", {{"layers", 2}, {"dim", 64}, {"heads", 4}, {"positions", 128}}}};
  family.default_preset = "own-small";
  family.make = [](const zero::ModelShape& shape) {
    return std::make_unique<OwnModel>(shape);
  };
  family.init_rules = [](const zero::ModelShape&) { return zero::InitRules{}; };
  // `generate` plans it.
  family.key_value_bytes = [](const zero::ModelShape& shape,
                              const zero::TextsAtOnce& texts, int64_t element_bytes) {
    return 2 * shape.layers() * shape.dim() * texts.rows * texts.tokens * element_bytes;
  };
  return zero::launch(argc, argv, {family});
}
