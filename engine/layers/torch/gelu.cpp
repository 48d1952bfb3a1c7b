#include "engine/layers/torch/eager.h"
#include "engine/layers/torch/placed_passes.h"
#include "zero/layers.h"

namespace zero {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Of elements in the order of their memory.
at::Tensor gelu_of(const at::Tensor& x) {
  const at::Tensor y = at::empty_like(x);
  for_type(x.scalar_type(), [&]<class T>() {
    const GeluPass<T> pass{const_elements_of<T>(x), elements_of<T>(y)};
    run_pass_at(x, pass, x.numel(), 1);
  });
  return y;
}

at::Tensor gelu_gradient_of(const at::Tensor& x, const at::Tensor& given) {
  const at::Tensor grad = laid_out_as(x, given), x_grad = at::empty_like(x);
  for_type(x.scalar_type(), [&]<class T>() {
    const GeluBackwardPass<T> pass{const_elements_of<T>(grad), const_elements_of<T>(x),
                                   elements_of<T>(x_grad)};
    run_pass_at(x, pass, x.numel(), 1);
  });
  return x_grad;
}

struct GeluFunction : torch::autograd::Function<GeluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return gelu_of(x);
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const variable_list saved = context->get_saved_variables();
    const bool is_ours = !torch::GradMode::is_enabled() && passes_take({grad[0]});
    return is_ours ? variable_list{gelu_gradient_of(saved[0], grad[0])}
                   : expression_gradients(saved, grad[0],
                                          [&] { return eager::gelu_tanh(saved[0]); });
  }
};

}  // namespace

at::Tensor gelu_tanh(const at::Tensor& x) {
  if (!passes_take({x})) return eager::gelu_tanh(x);
  const at::Tensor elements = end_to_end(x);
  return torch::GradMode::is_enabled() && x.requires_grad()
             ? GeluFunction::apply(elements)
             : gelu_of(elements);
}

}  // namespace zero
