#include "engine/layers/torch/eager.h"
#include "engine/layers/torch/placed_passes.h"
#include "zero/layers.h"

namespace zero {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

HeadStrides strides_of(const at::Tensor& x) {
  return {.batch = x.stride(0), .head = x.stride(1), .position = x.stride(2)};
}

// x (B, H, T, D): dimensions of the result lie in the order of those of x.
template <Pairs kPairs>
at::Tensor turned(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                  double direction) {
  const at::Tensor y = at::empty_like(x);
  for_type(x.scalar_type(), [&]<class T>() {
    const RotatePass<T, kPairs> pass{.x = const_elements_of<T>(x),
                                     .cos = const_elements_of<T>(cos),
                                     .sin = const_elements_of<T>(sin),
                                     .y = elements_of<T>(y),
                                     .from = strides_of(x),
                                     .to = strides_of(y),
                                     .num_heads = x.size(1),
                                     .length = x.size(2),
                                     .dim = x.size(3),
                                     .half = cos.size(-1),
                                     .num_angles = cos.numel() / cos.size(-1),
                                     .direction = static_cast<Wide<T>>(direction),
                                     .opposite = static_cast<Wide<T>>(-direction)};
    run_pass_at(x, pass, x.size(0) * x.size(2), x.size(1) * x.size(3));
  });
  return y;
}

template <Pairs kPairs>
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                  double direction);

// A rotation's gradient is turned back, again by a function with a gradient.
template <Pairs kPairs>
struct RotateFunction : torch::autograd::Function<RotateFunction<kPairs>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& cos, const at::Tensor& sin,
                            double direction) {
    context->save_for_backward({cos, sin});
    context->saved_data["direction"] = direction;
    return turned<kPairs>(x, cos, sin, direction);
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const variable_list angles = context->get_saved_variables();
    const double direction = context->saved_data["direction"].toDouble();
    return {rotate<kPairs>(grad[0], angles[0], angles[1], -direction), at::Tensor(),
            at::Tensor(), at::Tensor()};
  }
};

bool can_turn(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const bool is_of_rows = cos.dim() == 3 && x.dim() == 4 && cos.size(0) == x.size(0);
  return x.dim() == 4 && (cos.dim() == 2 || is_of_rows) && cos.sizes() == sin.sizes() &&
         cos.size(-2) == x.size(2) && 2 * cos.size(-1) <= x.size(3) &&
         cos.is_contiguous() && sin.is_contiguous() && !cos.requires_grad() &&
         !sin.requires_grad() && passes_take({x, cos, sin});
}

template <Pairs kPairs>
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                  double direction) {
  if (!can_turn(x, cos, sin)) {
    const at::Tensor turns = direction < 0 ? -sin : sin;
    return kPairs == Pairs::kHalves ? eager::rotate_halves(x, cos, turns)
                                    : eager::rotate_pairs(x, cos, turns);
  }
  const at::Tensor rows = x.stride(3) == 1 ? x : x.contiguous();
  return torch::autograd::compute_requires_grad(x)
             ? RotateFunction<kPairs>::apply(rows, cos, sin, direction)
             : turned<kPairs>(rows, cos, sin, direction);
}

}  // namespace

at::Tensor rotate_halves(const at::Tensor& x, const at::Tensor& cos,
                         const at::Tensor& sin) {
  return rotate<Pairs::kHalves>(x, cos, sin, 1);
}

at::Tensor rotate_pairs(const at::Tensor& x, const at::Tensor& cos,
                        const at::Tensor& sin) {
  return rotate<Pairs::kNeighbours>(x, cos, sin, 1);
}

}  // namespace zero
