#include "engine/layers/torch/eager.h"
#include "engine/layers/torch/placed_passes.h"
#include "zero/layers.h"

namespace zero {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Of elements in the order of their memory, which is the same in both.
at::Tensor gated(const at::Tensor& gate, const at::Tensor& up) {
  const at::Tensor y = at::empty_like(gate);
  for_type(gate.scalar_type(), [&]<class T>() {
    const SwiGluPass<T> pass{const_elements_of<T>(gate), const_elements_of<T>(up),
                             elements_of<T>(y)};
    run_pass_at(gate, pass, gate.numel(), 1);
  });
  return y;
}

variable_list gate_gradients(const at::Tensor& gate, const at::Tensor& up,
                             const at::Tensor& given) {
  const at::Tensor grad = laid_out_as(gate, given);
  const at::Tensor gate_grad = at::empty_like(gate), up_grad = at::empty_like(up);
  for_type(gate.scalar_type(), [&]<class T>() {
    const SwiGluBackwardPass<T> pass{const_elements_of<T>(grad),
                                     const_elements_of<T>(gate), const_elements_of<T>(up),
                                     elements_of<T>(gate_grad), elements_of<T>(up_grad)};
    run_pass_at(gate, pass, gate.numel(), 1);
  });
  return {gate_grad, up_grad};
}

struct SwiGluFunction : torch::autograd::Function<SwiGluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up) {
    context->save_for_backward({gate, up});
    return gated(gate, up);
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const variable_list saved = context->get_saved_variables();
    const bool is_ours = !torch::GradMode::is_enabled() && passes_take({grad[0]});
    return is_ours ? gate_gradients(saved[0], saved[1], grad[0])
                   : expression_gradients(saved, grad[0], [&] {
                       return eager::swiglu(saved[0], saved[1]);
                     });
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  if (gate.sizes() != up.sizes() || !passes_take({gate, up}))
    return eager::swiglu(gate, up);
  at::Tensor gates = end_to_end(gate), ups = end_to_end(up);
  if (gates.strides() != ups.strides()) gates = gate.contiguous(), ups = up.contiguous();
  const bool needs_grad =
      torch::GradMode::is_enabled() && (gate.requires_grad() || up.requires_grad());
  return needs_grad ? SwiGluFunction::apply(gates, ups) : gated(gates, ups);
}

}  // namespace zero
