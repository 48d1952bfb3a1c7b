#include "launcher/run/runner.h"

#include <torch/torch.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>

#include "launcher/run/torch/inference.h"
#include "launcher/settings/lora_setting.h"
#include "zero/deferred_init.h"
#include "zero/engine.h"
#include "zero/layers.h"
#include "zero/lora.h"

namespace zero::launcher {
namespace {

// What the engine calls: an object with a forward().
struct Loss {
  Model& model;
  const at::Tensor document_ends;  // stays on the host; undefined: a row is a document
  at::Tensor forward(const at::Tensor& inputs, const at::Tensor& targets) {
    return document_ends.defined() ? dynamic_cast<DocumentModel&>(model).packed_loss_sum(
                                         inputs, targets, document_ends)
                                   : model.loss_sum(inputs, targets);
  }
};

// Of tokens.
struct TargetScores {
  ScoringModel& model;
  const at::Tensor document_ends;
  at::Tensor forward(const at::Tensor& inputs, const at::Tensor& targets) {
    return model.target_scores(inputs, targets, document_ends);
  }
};

struct ImageLogits {
  ImageModel& model;
  at::Tensor forward(const at::Tensor& images) { return model.logits(images); }
};

at::Tensor loss_of(Model& model, Engine& engine, const Batch& batch) {
  Loss loss{model, document_ends_of(batch)};
  auto* callable = &loss;
  return engine.forward(callable, inputs_of(batch), targets_of(batch));
}

at::Tensor logits_of(Model& model, Engine& engine, const Batch& batch) {
  ImageLogits logits{dynamic_cast<ImageModel&>(model)};
  auto* callable = &logits;
  return engine.forward(callable, inputs_of(batch));
}

at::Tensor target_scores_of(ScoringModel& model, Engine& engine, const Batch& batch) {
  TargetScores scores{model, document_ends_of(batch)};
  auto* callable = &scores;
  return engine.forward(callable, inputs_of(batch), targets_of(batch));
}

std::vector<float> to_vector(const at::Tensor& tensor) {
  const at::Tensor result = tensor.to(torch::kCPU, torch::kFloat32).contiguous();
  const float* values = result.data_ptr<float>();
  return {values, values + result.numel()};
}

template <class T>
at::Tensor to_tensor(std::span<const T> values, const std::vector<int64_t>& shape) {
  at::Tensor tensor = torch::empty(shape, c10::CppTypeToScalarType<T>::value);
  std::copy(values.begin(), values.end(), tensor.data_ptr<T>());
  return tensor;
}

// One forward for both.
Scores scores_of(const at::Tensor& logits, const at::Tensor& targets) {
  namespace F = torch::nn::functional;
  const auto options =
      F::CrossEntropyFuncOptions().reduction(torch::kSum).ignore_index(-1);
  const at::Tensor classes = targets.to(logits.device()).flatten();
  return {F::cross_entropy(logits, classes, options).item<double>(),
          is_largest(logits, classes).sum().item<int64_t>()};
}

}  // namespace

at::Tensor inputs_of(const Batch& batch) {
  if (batch.image_size == 0)
    return to_tensor<int64_t>(batch.inputs, {batch.rows, batch.seq_len});
  return to_tensor<float>(batch.pixels,
                          {batch.rows, 3, batch.image_size, batch.image_size});
}

at::Tensor targets_of(const Batch& batch) {
  return to_tensor<int64_t>(batch.targets, {batch.rows, batch.seq_len});
}

at::Tensor document_ends_of(const Batch& batch) {
  if (batch.document_ends.empty()) return {};
  return to_tensor<int64_t>(batch.document_ends,
                            {batch.rows, std::ssize(batch.document_ends) / batch.rows});
}

std::unique_ptr<Model> make_model(const ModelFamily& family, const ModelShape& shape) {
  std::unique_ptr<Model> model = family.make(shape);
  if (shape.lora()) add_lora(*model->module(), lora_from_json(*shape.lora(), "--lora"));
  return model;
}

std::unique_ptr<Model> make_deferred(const ModelFamily& family, const ModelShape& shape) {
  DeferredInit without_memory;
  return make_model(family, shape);
}

std::set<std::string> names_in(Model& model) {
  std::set<std::string> names;
  for (const auto& item : model.module()->named_parameters()) names.insert(item.key());
  for (const auto& item : model.module()->named_buffers()) names.insert(item.key());
  return names;
}

std::set<std::string> names_of_trained(Model& model) {
  std::set<std::string> names;
  for (const auto& item : model.module()->named_parameters())
    if (item.value().requires_grad()) names.insert(item.key());
  return names;
}

std::vector<std::string> names_of_other_parts(const ModelFamily& family,
                                              const ModelShape& shape) {
  if (!shape.parts()) return {};
  ModelShape whole = shape;
  whole.config.erase(kParts);
  std::vector<std::string> names;
  std::ranges::set_difference(names_in(*make_deferred(family, whole)),
                              names_in(*make_deferred(family, shape)),
                              std::back_inserter(names));
  return names;
}

std::vector<at::Tensor> parameters_of(Model& model) {
  std::set<const at::TensorImpl*> seen;
  std::vector<at::Tensor> parameters = model.module()->parameters();
  std::erase_if(parameters, [&](const at::Tensor& parameter) {
    return !seen.insert(parameter.unsafeGetTensorImpl()).second;
  });
  return parameters;
}

int64_t count_parameters(Model& model) {
  int64_t count = 0;
  for (const at::Tensor& parameter : parameters_of(model)) {
    if (__builtin_add_overflow(count, parameter.numel(), &count))
      return std::numeric_limits<int64_t>::max();
  }
  return count;
}

void Runner::train(const Batch& batch) {
  engine_.backward(loss_of(model_, engine_, batch), batch.num_targets());
}

Scores Runner::scores(const Batch& batch, bool asks_each_target) {
  Inference inference(model_);
  if (batch.image_size > 0)
    return scores_of(logits_of(model_, engine_, batch), targets_of(batch));
  auto* scoring = dynamic_cast<ScoringModel*>(&model_);
  if (!scoring && asks_each_target)
    throw Error(ExitCode::kUsage, "this family does not tell what becomes of each target",
                "--choices, --per-token", "a family that does (docs/models.md)");
  if (!scoring) return {loss_of(model_, engine_, batch).item<double>()};
  const at::Tensor scores = target_scores_of(*scoring, engine_, batch);
  const at::Tensor sums = scores.sum(at::IntArrayRef{0, 1}, false, at::kDouble).cpu();
  return {sums[0].item<double>(), static_cast<int64_t>(sums[1].item<double>()),
          asks_each_target ? to_vector(scores.select(-1, 0)) : std::vector<float>()};
}

std::vector<float> Runner::logits(const Batch& batch) {
  Inference inference(model_);
  return to_vector(logits_of(model_, engine_, batch));
}

std::unique_ptr<TextReader> Runner::reader(const TextsAtOnce& texts,
                                           const BeginPass& begin_pass) {
  return make_text_reader(model_, engine_, texts, begin_pass);
}

}  // namespace zero::launcher
