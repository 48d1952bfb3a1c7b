#include "engine/layers/torch/eager.h"
#include "engine/layers/torch/placed_passes.h"
#include "zero/layers.h"

namespace zero {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct GeluFunction : torch::autograd::Function<GeluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return run_elements<Gelu>({x})[0];
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const variable_list saved = context->get_saved_variables();
    const bool is_ours = !torch::GradMode::is_enabled() && passes_take({grad[0]});
    return is_ours
               ? run_elements<GeluBackward>({laid_out_as(saved[0], grad[0]), saved[0]})
               : expression_gradients(saved, grad[0], [](const variable_list& in) {
                   return eager::gelu_tanh(in[0]);
                 });
  }
};

}  // namespace

at::Tensor gelu_tanh(const at::Tensor& x) {
  if (!passes_take({x})) return eager::gelu_tanh(x);
  const at::Tensor elements = end_to_end(x);
  return torch::autograd::compute_requires_grad(x) ? GeluFunction::apply(elements)
                                                   : run_elements<Gelu>({elements})[0];
}

}  // namespace zero
