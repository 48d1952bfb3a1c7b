#include "engine/layers/torch/eager.h"
#include "engine/layers/torch/placed_passes.h"
#include "zero/layers.h"

namespace zero {
namespace {

at::Tensor expressed_gelu(const torch::autograd::variable_list& in) {
  return eager::gelu_tanh(in[0]);
}
using GeluFunction = ElementFunction<Gelu, GeluBackward, expressed_gelu>;

}  // namespace

at::Tensor gelu_tanh(const at::Tensor& x) {
  if (!passes_take({x})) return eager::gelu_tanh(x);
  const at::Tensor elements = end_to_end(x);
  return torch::autograd::compute_requires_grad(x) ? GeluFunction::apply(elements)
                                                   : run_elements<Gelu>({elements})[0];
}

}  // namespace zero
