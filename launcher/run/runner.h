#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/data/batches.h"
#include "launcher/inference/text_reader.h"
#include "launcher/model.h"

namespace zero {
class Engine;
}

namespace zero::launcher {

// Of a batch, copies.
at::Tensor inputs_of(const Batch& batch);
at::Tensor targets_of(const Batch& batch);
// (rows, n) int64; undefined: a row is a document.
at::Tensor document_ends_of(const Batch& batch);

// A model, with the adapters that its config names.
std::unique_ptr<Model> make_model(const ModelFamily& family, const ModelShape& shape);

// The same, which takes no memory yet.
std::unique_ptr<Model> make_deferred(const ModelFamily& family, const ModelShape& shape);

// All names of its parameters and buffers.
std::set<std::string> names_in(Model& model);

// Of its parameters those that are not frozen, tied ones under each name.
std::set<std::string> names_of_trained(Model& model);

// Those of the whole model that a part of it does not have; of a whole one none.
std::vector<std::string> names_of_other_parts(const ModelFamily& family,
                                              const ModelShape& shape);

// All parameters, tied ones once.
std::vector<at::Tensor> parameters_of(Model& model);

// Elements of all parameters, tied ones counted once.
int64_t count_parameters(Model& model);

// What a forward says of a batch with targets.
struct Scores {
  double loss_sum = 0;  // over all targets
  // Those that had the largest logit; nothing: the model does not tell.
  std::optional<int64_t> num_correct = {};
  // If they are asked for: the cross entropy of each, (rows, seq_len), 0 where there is
  // none.
  std::vector<float> target_losses = {};
};

// Run a model through the engine, on batches that know nothing of tensors: the
// one place of a run that speaks torch. All calls are collective.
class Runner {
 public:
  // Both must outlive this object.
  Runner(Model& model, Engine& engine) : model_(model), engine_(engine) {}

  // Forward and backward: adds to the gradient of the step.
  void train(const Batch& batch);

  // Without gradients and dropout. Throws Error(kUsage) where each target's is asked for,
  // and the model is no ScoringModel.
  Scores scores(const Batch& batch, bool asks_each_target = false);

  // The same for the logits (rows, classes) of images; of an ImageModel.
  std::vector<float> logits(const Batch& batch);

  // The same for texts that are made token by token; of a LanguageModel.
  std::unique_ptr<TextReader> reader(
      const TextsAtOnce& texts, const BeginPass& begin_pass = [] {});

 private:
  Model& model_;
  Engine& engine_;
};

}  // namespace zero::launcher
