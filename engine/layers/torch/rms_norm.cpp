#include "engine/layers/torch/eager.h"
#include "engine/layers/torch/placed_passes.h"
#include "zero/layers.h"

namespace zero {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What is normalised: x, or x + added, which is written to `total`.
struct Input {
  at::Tensor x, added = {}, total = {};
};

// Of rows in the order of their memory. `scales` (rows) may be undefined.
at::Tensor normalised(const Input& input, const at::Tensor& weight, double eps,
                      const at::Tensor& scales) {
  const at::Tensor& x = input.x;
  const at::Tensor y = at::empty_like(x);
  const int64_t dim = weight.numel();
  for_type(x.scalar_type(), [&]<class T>() {
    const RmsNormPass<T> pass{const_elements_of<T>(x),
                              const_elements_of<T>(weight),
                              elements_of<T>(y),
                              elements_of<Wide<T>>(scales),
                              dim,
                              static_cast<Wide<T>>(eps),
                              const_elements_of<T>(input.added),
                              elements_of<T>(input.total)};
    run_pass_at(x, pass, x.numel() / dim, dim);
  });
  return y;
}

// Those of x and weight; undefined where they are not needed. That of x gets `more`,
// which may be undefined, too.
variable_list norm_gradients(const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& scales, const at::Tensor& given,
                             const at::Tensor& more) {
  const at::Tensor grad = laid_out_as(x, given);
  const at::Tensor others = more.defined() ? laid_out_as(x, more) : more;
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
                                      dim,
                                      const_elements_of<T>(others)};
    run_pass_at(x, pass, blocks, kRowsOfSum * dim);
    if (!weight_grad.defined()) return;
    const SumBlocksPass<T> sum{const_elements_of<Wide<T>>(sums),
                               elements_of<T>(weight_grad), blocks, dim};
    run_pass_at(x, sum, (dim + kColumnsOfTile - 1) / kColumnsOfTile,
                blocks * kColumnsOfTile);
  });
  return {x_grad, weight_grad};
}

at::Tensor empty_scales(const at::Tensor& x, const at::Tensor& weight) {
  return at::empty({x.numel() / weight.numel()}, x.options().dtype(wide_type(x)));
}

// As norm_gradients(), with a graph where autograd wants one.
variable_list gradients_of(const variable_list& saved, double eps, const at::Tensor& grad,
                           const at::Tensor& more) {
  const at::Tensor &x = saved[0], &weight = saved[1], &scales = saved[2];
  if (!torch::GradMode::is_enabled() && passes_take({grad}) &&
      (!more.defined() || passes_take({more})))
    return norm_gradients(x, weight, scales, grad, more);
  variable_list grads = expression_gradients(
      {x, weight}, grad,
      [&](const variable_list& in) { return eager::rms_norm(in[0], in[1], eps); });
  if (more.defined() && grads[0].defined()) grads[0] = grads[0] + more;
  return grads;
}

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, double eps) {
    const at::Tensor scales = empty_scales(x, weight);
    context->saved_data["eps"] = eps;
    context->save_for_backward({x, weight, scales});
    return normalised({x}, weight, eps, scales);
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    variable_list grads =
        gradients_of(context->get_saved_variables(),
                     context->saved_data["eps"].toDouble(), grad[0], /*more=*/{});
    grads.emplace_back();  // of eps
    return grads;
  }
};

struct AddRmsNormFunction : torch::autograd::Function<AddRmsNormFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const at::Tensor& added, const at::Tensor& weight,
                               double eps) {
    const at::Tensor scales = empty_scales(x, weight), total = at::empty_like(x);
    const at::Tensor y = normalised({x, added, total}, weight, eps, scales);
    context->saved_data["eps"] = eps;
    context->set_materialize_grads(false);
    context->save_for_backward({total, weight, scales});
    return {total, y};
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    if (!grad[1].defined()) return {grad[0], grad[0], at::Tensor(), at::Tensor()};
    const variable_list grads =
        gradients_of(context->get_saved_variables(),
                     context->saved_data["eps"].toDouble(), grad[1], grad[0]);
    return {grads[0], grads[0], grads[1], at::Tensor()};
  }
};

// May passes of ours compute it? Of rows that are as long as the weight.
bool are_rows(const at::Tensor& x, const at::Tensor& weight) {
  return x.dim() > 0 && weight.dim() == 1 && weight.size(0) == x.size(-1) &&
         weight.is_contiguous();
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (!are_rows(x, weight) || !passes_take({x, weight}))
    return eager::rms_norm(x, weight, eps);
  const at::Tensor rows = end_to_end(x);
  return torch::autograd::compute_requires_grad(x, weight)
             ? RmsNormFunction::apply(rows, weight, eps)
             : normalised({rows}, weight, eps, {});
}

std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x,
                                               const at::Tensor& added,
                                               const at::Tensor& weight, double eps) {
  if (!are_rows(x, weight) || added.sizes() != x.sizes() ||
      !passes_take({x, added, weight})) {
    const at::Tensor total = x + added;
    return {total, eager::rms_norm(total, weight, eps)};
  }
  const at::Tensor rows = end_to_end(x), others = laid_out_as(rows, added);
  if (torch::autograd::compute_requires_grad(x, added, weight)) {
    const variable_list both = AddRmsNormFunction::apply(rows, others, weight, eps);
    return {both[0], both[1]};
  }
  const at::Tensor total = at::empty_like(rows);
  return {total, normalised({rows, others, total}, weight, eps, {})};
}

}  // namespace zero
