#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/init/init_spec.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace zero {

// A language model as the launcher's verbs need it; examples/models/gpt2 is one.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  virtual std::shared_ptr<torch::nn::Module> module() = 0;
  // tokens, targets (micro_batch, seq_len) int64 -> scalar fp32: sum of cross entropies;
  // targets of -1 are ignored.
  virtual at::Tensor loss_sum(const at::Tensor& tokens, const at::Tensor& targets) = 0;
  // tokens (batch, length) int64 -> (batch, vocab) fp32: logits of the token that follows
  // the last one.
  virtual at::Tensor next_logits(const at::Tensor& tokens) = 0;
};

// The shape of a model: what --preset chooses and --layers, --dim ... override. 0: take
// the preset's.
struct ModelShape {
  int64_t layers = 0, dim = 0, heads = 0, kv_heads = 0, ffn_dim = 0;
  int64_t vocab = 0;    // 0: what the data needs
  int64_t seq_len = 0;  // longest sequence
  double dropout = 0;
  int64_t loss_chunk = 0;  // tokens whose logits the loss makes at once; 0: all
  bool operator==(const ModelShape&) const = default;
};

// One pass of training through a model, for its memory to be estimated.
struct PassShape {
  int64_t rows = 0;           // sequences that go through the model together
  int64_t rows_in_units = 0;  // of them, through a unit at a time
  int64_t element_bytes = 4;  // of weights and activations
  // Which units make their activations again in backward: as Recompute::every.
  int64_t recompute_every = 1;
  bool offloads = false;  // the inputs of those are kept in the host's memory
};

// What a pass takes beside the engine's own bytes.
struct ActivationBytes {
  // At its worst moment, where the model computes: activations, gradients of activations,
  // a unit's gradients of weights.
  int64_t computed = 0;
  int64_t offloaded = 0;  // in the host's memory, with PassShape::offloads
};

// One family of models that --model can name.
struct ModelFamily {
  std::string name;                           // "gpt2"
  std::map<std::string, ModelShape> presets;  // "gpt2-124m" ...
  std::string default_preset;                 // when none is named
  // Throws Error(kUsage) for shapes that do not fit together. Called under DeferredInit:
  // costs no memory.
  std::function<std::unique_ptr<LanguageModel>(const ModelShape&)> make;
  std::function<InitRules(const ModelShape&)> init_rules;
  // Null: nobody knows.
  std::function<ActivationBytes(const ModelShape&, const PassShape&)> activation_bytes =
      nullptr;
};

using ModelFamilies = std::vector<ModelFamily>;

}  // namespace zero
