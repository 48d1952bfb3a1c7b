#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "launcher/data/batches.h"
#include "launcher/model.h"

namespace zero {
class Engine;
}

namespace zero::launcher {

// (rows, columns) int64, a copy.
at::Tensor to_tensor(std::span<const int64_t> values, int64_t rows, int64_t columns);

// A model that takes no memory yet.
std::unique_ptr<LanguageModel> make_deferred(const ModelFamily& family,
                                             const ModelShape& shape);

// All parameters, tied ones once.
std::vector<at::Tensor> parameters_of(LanguageModel& model);

// Elements of all parameters, tied ones counted once.
int64_t count_parameters(LanguageModel& model);

// Run a language model through the engine, on batches that know nothing of tensors: the
// one place of a run that speaks torch. All calls are collective.
class Runner {
 public:
  // Both must outlive this object.
  Runner(LanguageModel& model, Engine& engine) : model_(model), engine_(engine) {}

  // Forward and backward: adds to the gradient of the step.
  void train(const Batch& batch);

  // Without gradients and dropout: the sum of the losses of all targets.
  double loss_sum(const Batch& batch);

  // The same for the logits (vocab) of the token that follows these.
  std::vector<float> next_logits(std::span<const int64_t> tokens);

 private:
  LanguageModel& model_;
  Engine& engine_;
};

}  // namespace zero::launcher
