#include "launcher/run/runner.h"

#include <torch/torch.h>

#include <limits>
#include <set>

#include "zero/deferred_init.h"
#include "zero/engine.h"

namespace zero::launcher {
namespace {

// What the engine calls: an object with a forward().
struct Loss {
  LanguageModel& model;
  at::Tensor forward(const at::Tensor& tokens, const at::Tensor& targets) {
    return model.loss_sum(tokens, targets);
  }
};

struct Logits {
  LanguageModel& model;
  at::Tensor forward(const at::Tensor& tokens) { return model.next_logits(tokens); }
};

// No gradients and no dropout, until the end of the scope.
class Inference {
 public:
  explicit Inference(LanguageModel& model) : module_(model.module()) { module_->eval(); }
  ~Inference() { module_->train(); }
  Inference(const Inference&) = delete;
  Inference& operator=(const Inference&) = delete;

 private:
  std::shared_ptr<torch::nn::Module> module_;
  torch::NoGradGuard no_grad_;
};

at::Tensor loss_of(LanguageModel& model, Engine& engine, const Batch& batch) {
  Loss loss{model};
  auto* callable = &loss;
  return engine.forward(callable, to_tensor(batch.inputs, batch.rows, batch.seq_len),
                        to_tensor(batch.targets, batch.rows, batch.seq_len));
}

}  // namespace

at::Tensor to_tensor(std::span<const int64_t> values, int64_t rows, int64_t columns) {
  at::Tensor tensor = torch::empty({rows, columns}, torch::kInt64);
  std::copy(values.begin(), values.end(), tensor.data_ptr<int64_t>());
  return tensor;
}

std::unique_ptr<LanguageModel> make_deferred(const ModelFamily& family,
                                             const ModelShape& shape) {
  DeferredInit without_memory;
  return family.make(shape);
}

std::vector<at::Tensor> parameters_of(LanguageModel& model) {
  std::set<const at::TensorImpl*> seen;
  std::vector<at::Tensor> parameters = model.module()->parameters();
  std::erase_if(parameters, [&](const at::Tensor& parameter) {
    return !seen.insert(parameter.unsafeGetTensorImpl()).second;
  });
  return parameters;
}

int64_t count_parameters(LanguageModel& model) {
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

double Runner::loss_sum(const Batch& batch) {
  Inference inference(model_);
  return loss_of(model_, engine_, batch).item<double>();
}

std::vector<float> Runner::next_logits(std::span<const int64_t> tokens) {
  Inference inference(model_);
  Logits logits{model_};
  auto* callable = &logits;
  const at::Tensor result =
      engine_.forward(callable, to_tensor(tokens, 1, std::ssize(tokens)))
          .to(torch::kCPU, torch::kFloat32)
          .contiguous();
  const float* values = result.data_ptr<float>();
  return {values, values + result.numel()};
}

}  // namespace zero::launcher
