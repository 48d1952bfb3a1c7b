#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "zero/init_spec.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace zero {

class KeyValues;

// A model as the launcher's verbs need it; examples/ holds some.
class Model {
 public:
  virtual ~Model() = default;
  virtual std::shared_ptr<torch::nn::Module> module() = 0;
  // Inputs, and targets (micro_batch, targets of a row) int64 -> scalar fp32: sum of
  // cross entropies; targets of -1 are ignored.
  virtual at::Tensor loss_sum(const at::Tensor& inputs, const at::Tensor& targets) = 0;
};

// Of Task::kLanguage: inputs are tokens (micro_batch, seq_len) int64.
class LanguageModel : public Model {
 public:
  // tokens (batch, length) int64 -> (batch, vocab) fp32: logits of the token that follows
  // the last one.
  virtual at::Tensor next_logits(const at::Tensor& tokens) = 0;
};

// One whose rows may hold several documents, none of which sees another, and whose
// positions begin anew.
class DocumentModel : public LanguageModel {
 public:
  // loss_sum() of such rows. document_ends (micro_batch, n), int64 on the host: as of
  // causal_attention() (<zero/layers.h>).
  virtual at::Tensor packed_loss_sum(const at::Tensor& tokens, const at::Tensor& targets,
                                     const at::Tensor& document_ends) = 0;
};

// One that tells what becomes of each target, so that evaluations know more than a loss.
class ScoringModel {
 public:
  virtual ~ScoringModel() = default;
  // Tokens and targets (micro_batch, seq_len) of a LanguageModel -> (micro_batch,
  // seq_len, 2) fp32: the cross entropy of each target, and 1 where its logit is the
  // largest; 0 and 0 where the target is -1. document_ends: as DocumentModel takes them,
  // or undefined.
  virtual at::Tensor target_scores(const at::Tensor& tokens, const at::Tensor& targets,
                                   const at::Tensor& document_ends) = 0;
};

// One that reads each token once, where texts are made token by token.
class ReadingModel {
 public:
  virtual ~ReadingModel() = default;
  // A reading of so many rows, which has read nothing.
  virtual std::shared_ptr<KeyValues> begin_reading(int64_t rows) = 0;
  // tokens (rows, length) of a LanguageModel -> (rows, vocab) fp32: logits of the token
  // that follows the last one of each row. Between the reading's begin() and end()
  // (<zero/key_values.h>).
  virtual at::Tensor next_logits(const at::Tensor& tokens, KeyValues& read) = 0;
};

// Of Task::kImages: inputs are images (micro_batch, 3, size, size) fp32, targets
// (micro_batch, 1) their classes.
class ImageModel : public Model {
 public:
  // images -> (micro_batch, classes) fp32.
  virtual at::Tensor logits(const at::Tensor& images) = 0;
};

// What samples of a family are, and what it tells of them.
enum class Task { kLanguage, kImages };

// Under which keys a family's config has what --layers, --dim ... stand for. Empty: the
// family has no such thing, and refuses the setting.
struct ConfigKeys {
  std::string layers = {}, dim = {}, heads = {}, kv_heads = {}, ffn_dim = {};
  std::string positions = {};        // the longest sample that the model is made for
  std::string vocab = "vocab_size";  // how many different targets there are
  std::string image_size = {};       // pixels of a side; of Task::kImages
  bool operator==(const ConfigKeys&) const = default;
};

// The key of a config that says which parts of its model there are, as a list of texts
// such as "embed" and "layers=0:8". Without it the model is whole.
inline constexpr char kParts[] = "model_parts";

// The key of a config that says which adapters its model has, in the words of peft's
// adapter_config.json (lora_setting.h). Without it there are none.
inline constexpr char kLora[] = "lora";

// The shape of a model, and how it is trained. `config` is the family's own: the keys and
// meanings are those of its config.json at Hugging Face, where it is known there. null:
// to be worked out from the others; of the vocabulary: what the data needs.
struct ModelShape {
  nlohmann::json config = nlohmann::json::object();
  ConfigKeys keys = {};
  int64_t seq_len = 0;  // tokens of a sample; 1 of an image, which has one target
  double dropout = 0;
  int64_t loss_chunk = 0;  // tokens whose logits the loss makes at once; 0: all
  bool sublayers = false;  // units are attention and feed-forward, not layers
  bool operator==(const ModelShape&) const = default;

  // An integer of the config; 0 where it has none, or null.
  int64_t integer(const std::string& key) const {
    const auto found = config.find(key);
    return found != config.end() && found->is_number_integer() ? found->get<int64_t>()
                                                               : 0;
  }
  int64_t layers() const { return integer(keys.layers); }
  int64_t dim() const { return integer(keys.dim); }
  int64_t heads() const { return integer(keys.heads); }
  int64_t kv_heads() const { return integer(keys.kv_heads); }
  int64_t ffn_dim() const { return integer(keys.ffn_dim); }
  int64_t vocab() const { return integer(keys.vocab); }
  void set_vocab(int64_t vocab) { config[keys.vocab] = vocab; }
  int64_t image_size() const { return integer(keys.image_size); }
  // Whether it has "embed", "norm" or "head": a whole model, whose config names no parts,
  // has all.
  bool has(const std::string& part) const {
    return !parts() ||
           std::find(parts()->begin(), parts()->end(), part) != parts()->end();
  }
  // Those that its config names; null: it is whole.
  const nlohmann::json* parts() const { return find(kParts); }
  const nlohmann::json* lora() const { return find(kLora); }  // null: no adapters

 private:
  const nlohmann::json* find(const char* key) const {
    const auto found = config.find(key);
    return found == config.end() || found->is_null() ? nullptr : &*found;
  }
};

// Texts that are made together.
struct TextsAtOnce {
  int64_t rows = 0;
  int64_t tokens = 0;  // of the longest at its end, with its prompt
};

// One pass of training through a model, for its memory to be estimated.
struct PassShape {
  int64_t rows = 0;           // sequences that go through the model together
  int64_t rows_in_units = 0;  // of them, through a unit at a time
  int64_t element_bytes = 4;  // of weights and activations
  // Which units make their activations again in backward: as Recompute::every.
  int64_t recompute_every = 1;
  bool offloads = false;  // the inputs of those are kept in the host's memory
  bool on_gpu = false;
  // Bytes of a token: what all adapters keep for backward beside their layers' inputs,
  // and what the one that takes most makes at a time.
  int64_t kept_by_adapters = 0, made_by_adapter = 0;
};

// What a pass takes beside the engine's own bytes.
struct ActivationBytes {
  // At its worst moment, where the model computes: activations, gradients of activations,
  // a unit's gradients of weights.
  int64_t computed = 0;
  int64_t offloaded = 0;  // in the host's memory, with PassShape::offloads
};

// Of estimates, which no int64 may hold: at most 10^18, which fits nowhere.
inline ActivationBytes activation_bytes_of(double computed, double offloaded) {
  const auto bytes = [](double number) {
    constexpr double kMost = 1e18;
    return static_cast<int64_t>(std::min(number, kMost));
  };
  return {bytes(computed), bytes(offloaded)};
}

// One class of configs that a family is made from, as a table: what a config of that
// "model_type" means where it is silent.
struct ConfigClass {
  std::string model_type;    // "qwen2"
  std::string architecture;  // "Qwen2ForCausalLM"
  // Every key that the family reads, with what counts where a config.json has none.
  nlohmann::json defaults = nlohmann::json::object();
  // Keys that it does not read, each with the values under which it need not: anything
  // else is another model. A key that is absent has the first of them.
  nlohmann::json fixed = nlohmann::json::object();
  // Rates of dropout, which are told: --dropout alone counts.
  std::vector<std::string> dropouts = {};
  std::map<std::string, std::string> aliases = {};  // other names of keys
  // Of its files: what stands before all names but the head's, and is missing in old
  // ones; globs of tensors that old ones have and nobody needs.
  std::string prefix = "";
  std::vector<std::string> dead = {};
};

// One family of models that --model can name.
struct ModelFamily {
  std::string name;  // "llama"
  Task task = Task::kLanguage;
  ConfigKeys keys = {};
  // Of presets that name no "model_type", the first. None: configs are what presets say.
  std::vector<ConfigClass> classes = {};
  std::map<std::string, nlohmann::json> presets;  // "gpt2-124m": what is not the default
  std::string default_preset;                     // when none is named
  // The model has a parameter for each position: a sample is never longer than those, and
  // a new model has as many as its samples are long.
  bool learns_positions = false;
  // Sizes of products differ from pass to pass, as in a mixture of experts: LibTorch
  // keeps more kernels, which a plan counts.
  bool has_new_shapes = false;
  // Units treat the rows of a batch alone, and mark what has none (unit.h): they may work
  // through it in parts.
  bool has_batched_units = false;
  // Its models are DocumentModels.
  bool takes_documents = false;
  // It reads kParts, and makes those alone, with the names that they have in the whole.
  bool has_parts = false;
  // Its layers are made of attention and feed-forward, which ModelShape::sublayers makes
  // units.
  bool has_sublayers = false;
  // Bring keys of older config.json up to date, before defaults fill what is missing.
  // Null: there are none.
  std::function<void(nlohmann::json& config)> modernise = nullptr;
  // The reverse: add the older keys, so that older readers understand it, too.
  std::function<void(nlohmann::json& config)> age = nullptr;
  // Globs of names that transformers 5 has otherwise than its files and older ones do,
  // and peft with it: "embed_out*" is "lm_head*" there.
  std::map<std::string, std::string> names_in_peft = {};
  // Work sizes out anew that belong to another width or number of heads than the
  // config's.
  std::function<void(nlohmann::json& config)> resize = nullptr;
  // Throws Error(kUsage) for sizes that do not fit together, in the config's words.
  std::function<void(const ModelShape&)> check = nullptr;
  // Of a shape that check() allows. Called under DeferredInit: costs no memory.
  std::function<std::unique_ptr<Model>(const ModelShape&)> make;
  std::function<InitRules(const ModelShape&)> init_rules;
  // Null: nobody knows.
  std::function<ActivationBytes(const ModelShape&, const PassShape&)> activation_bytes =
      nullptr;
  // Of KeyValues, in the end. Null: its models are no ReadingModels.
  std::function<int64_t(const ModelShape&, const TextsAtOnce&, int64_t element_bytes)>
      key_value_bytes = nullptr;
};

using ModelFamilies = std::vector<ModelFamily>;

}  // namespace zero
