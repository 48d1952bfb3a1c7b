#include "engine/layers/torch/eager.h"
#include "engine/layers/torch/placed_passes.h"
#include "zero/layers.h"

namespace zero {
namespace {

at::Tensor expressed_swiglu(const torch::autograd::variable_list& in) {
  return eager::swiglu(in[0], in[1]);
}
using SwiGluFunction = ElementFunction<SwiGlu, SwiGluBackward, expressed_swiglu>;

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
