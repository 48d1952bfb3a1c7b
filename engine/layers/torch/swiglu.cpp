#include "engine/layers/torch/eager.h"
#include "engine/layers/torch/placed_passes.h"
#include "zero/layers.h"

namespace zero {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SwiGluFunction : torch::autograd::Function<SwiGluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up) {
    context->save_for_backward({gate, up});
    return run_elements<SwiGlu>({gate, up})[0];
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const variable_list saved = context->get_saved_variables();
    const bool is_ours = !torch::GradMode::is_enabled() && passes_take({grad[0]});
    return is_ours ? run_elements<SwiGluBackward>(
                         {laid_out_as(saved[0], grad[0]), saved[0], saved[1]})
                   : expression_gradients(saved, grad[0], [](const variable_list& in) {
                       return eager::swiglu(in[0], in[1]);
                     });
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  if (gate.sizes() != up.sizes() || !passes_take({gate, up}))
    return eager::swiglu(gate, up);
  at::Tensor gates = end_to_end(gate), ups = end_to_end(up);
  if (gates.strides() != ups.strides()) gates = gate.contiguous(), ups = up.contiguous();
  return torch::autograd::compute_requires_grad(gate, up)
             ? SwiGluFunction::apply(gates, ups)
             : run_elements<SwiGlu>({gates, ups})[0];
}

}  // namespace zero
