#include "engine/layers/torch/cross_entropy.h"

#include "engine/layers/torch/eager.h"
#include "engine/layers/torch/placed_passes.h"
#include "zero/layers.h"

namespace zero {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check_targets(const at::Tensor& targets, int64_t num_classes) {
  const int64_t* target = targets.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < targets.numel(); ++i)
    TORCH_CHECK_INDEX(target[i] >= -1 && target[i] < num_classes, "target ", target[i],
                      " is none of ", num_classes, " classes, and not -1");
}

// Is a node that runs for the last time the only one to know what it saved? The count is
// of the node and of what the caller took out of it.
bool is_unknown_to_others(const at::Tensor& saved) {
  return !torch::autograd::get_current_graph_task_keep_graph() &&
         saved.use_count() == 2 && saved.storage().use_count() == 1;
}

struct CrossEntropyFunction : torch::autograd::Function<CrossEntropyFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets) {
    const at::Tensor kept = numbers_of_rows(logits);
    context->save_for_backward({logits, targets, kept});
    return cross_entropy_sum(logits, targets, kept).to(wide_type(logits));
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &logits = saved[0], &targets = saved[1], &kept = saved[2];
    if (torch::GradMode::is_enabled() || !passes_take({grad[0]})) {
      variable_list grads = expression_gradients(
          {logits}, grad[0],
          [&](const variable_list& in) { return eager::cross_entropy(in[0], targets); });
      grads.emplace_back();  // of targets
      return grads;
    }
    const at::Tensor result =
        is_unknown_to_others(logits) ? logits.variable_data() : logits.clone();
    become_gradient(result, targets, kept, grad[0]);
    return {result, at::Tensor()};
  }
};

}  // namespace

bool takes_cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  return logits.dim() > 0 && targets.scalar_type() == at::kLong &&
         targets.device() == logits.device() &&
         targets.sizes() == logits.sizes().slice(0, logits.dim() - 1) &&
         passes_take({logits});
}

at::Tensor numbers_of_rows(const at::Tensor& logits) {
  return at::empty({logits.numel() / logits.size(-1), kNumbersOfRow},
                   logits.options().dtype(wide_type(logits)));
}

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& targets,
                             const at::Tensor& kept) {
  const int64_t num_classes = logits.size(-1), rows = targets.numel();
  if (targets.is_cpu()) check_targets(targets, num_classes);
  const at::TensorOptions exact = logits.options().dtype(at::kDouble);
  const at::Tensor losses = at::empty({rows}, exact), sum = at::empty({}, exact);
  for_type(logits.scalar_type(), [&]<class T>() {
    const CrossEntropyPass<T> pass{
        const_elements_of<T>(logits), targets.const_data_ptr<int64_t>(),
        elements_of<double>(losses), elements_of<Wide<T>>(kept), num_classes};
    run_pass_at(logits, pass, rows, num_classes);
  });
  const SumLossesPass total{elements_of<double>(losses), elements_of<double>(sum), rows};
  run_pass_at(logits, total, 1, rows);
  return sum;
}

void become_gradient(const at::Tensor& logits, const at::Tensor& targets,
                     const at::Tensor& kept, const at::Tensor& factor) {
  const int64_t num_classes = logits.size(-1);
  for_type(logits.scalar_type(), [&]<class T>() {
    const CrossEntropyBackwardPass<T> pass{
        elements_of<T>(logits), targets.const_data_ptr<int64_t>(),
        const_elements_of<Wide<T>>(kept), const_elements_of<Wide<T>>(factor),
        num_classes};
    run_pass_at(logits, pass, targets.numel(), num_classes);
  });
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  if (!takes_cross_entropy(logits, targets)) return eager::cross_entropy(logits, targets);
  const at::Tensor rows = logits.contiguous(), row_targets = targets.contiguous();
  return torch::autograd::compute_requires_grad(logits)
             ? CrossEntropyFunction::apply(rows, row_targets)
             : cross_entropy_sum(rows, row_targets, {}).to(wide_type(logits));
}

at::Tensor is_largest(const at::Tensor& logits, const at::Tensor& targets) {
  const auto [largest, index] = logits.max(1);  // NaN where there is one
  return index.eq(targets).logical_and(largest.eq(largest));
}

}  // namespace zero
