#include "engine/layers/torch/eager.h"
#include "engine/layers/torch/placed_passes.h"
#include "zero/layers.h"

namespace zero {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Of rows in the order of their memory. `scales` (rows) may be undefined.
at::Tensor normalised(const at::Tensor& x, const at::Tensor& weight, double eps,
                      const at::Tensor& scales) {
  const at::Tensor y = at::empty_like(x);
  const int64_t dim = weight.numel();
  for_type(x.scalar_type(), [&]<class T>() {
    const RmsNormPass<T> pass{const_elements_of<T>(x),
                              const_elements_of<T>(weight),
                              elements_of<T>(y),
                              elements_of<Wide<T>>(scales),
                              dim,
                              static_cast<Wide<T>>(eps)};
    run_pass_at(x, pass, x.numel() / dim, dim);
  });
  return y;
}

at::ScalarType wide_type(const at::Tensor& x) {
  return at::promote_types(x.scalar_type(), at::kFloat);
}

// Those of x and weight; undefined where they are not needed.
variable_list norm_gradients(const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& scales, const at::Tensor& given) {
  const at::Tensor grad = laid_out_as(x, given);
  const int64_t dim = weight.numel(), rows = x.numel() / dim;
  const int64_t blocks = (rows + kRowsOfSum - 1) / kRowsOfSum;
  at::Tensor x_grad, weight_grad, sums;
  if (x.requires_grad()) x_grad = at::empty_like(x);
  if (weight.requires_grad()) {
    weight_grad = at::empty_like(weight);
    sums = at::empty({blocks, dim}, x.options().dtype(wide_type(x)));
  }
  for_type(x.scalar_type(), [&]<class T>() {
    const RmsNormBackwardPass<T> pass{const_elements_of<T>(x),
                                      const_elements_of<T>(weight),
                                      const_elements_of<T>(grad),
                                      const_elements_of<Wide<T>>(scales),
                                      elements_of<T>(x_grad),
                                      elements_of<Wide<T>>(sums),
                                      rows,
                                      dim};
    run_pass_at(x, pass, blocks, kRowsOfSum * dim);
    if (!weight_grad.defined()) return;
    const SumBlocksPass<T> sum{const_elements_of<Wide<T>>(sums),
                               elements_of<T>(weight_grad), blocks, dim};
    run_pass_at(x, sum, (dim + kColumnsOfTile - 1) / kColumnsOfTile,
                blocks * kColumnsOfTile);
  });
  return {x_grad, weight_grad};
}

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, double eps) {
    const at::Tensor scales =
        at::empty({x.numel() / weight.numel()}, x.options().dtype(wide_type(x)));
    context->saved_data["eps"] = eps;
    context->save_for_backward({x, weight, scales});
    return normalised(x, weight, eps, scales);
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &scales = saved[2];
    const bool is_ours = !torch::GradMode::is_enabled() && passes_take({grad[0]});
    variable_list grads =
        is_ours
            ? norm_gradients(x, weight, scales, grad[0])
            : expression_gradients({x, weight}, grad[0], [&] {
                return eager::rms_norm(x, weight, context->saved_data["eps"].toDouble());
              });
    grads.emplace_back();  // of eps
    return grads;
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const bool fits = x.dim() > 0 && weight.dim() == 1 && weight.size(0) == x.size(-1);
  if (!fits || !weight.is_contiguous() || !passes_take({x, weight}))
    return eager::rms_norm(x, weight, eps);
  const at::Tensor rows = end_to_end(x);
  const bool needs_grad =
      torch::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad());
  return needs_grad ? RmsNormFunction::apply(rows, weight, eps)
                    : normalised(rows, weight, eps, {});
}

}  // namespace zero
