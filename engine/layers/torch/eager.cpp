#include "engine/layers/torch/eager.h"

#include <torch/torch.h>

namespace zero::eager {
namespace {

// With what is not turned.
at::Tensor joined(const at::Tensor& turned, const at::Tensor& x) {
  const int64_t dim = turned.size(-1), rest = x.size(-1) - dim;
  return rest == 0 ? turned : at::cat({turned, x.narrow(-1, dim, rest)}, -1);
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor wide = x.to(at::promote_types(x.scalar_type(), at::kFloat));
  const at::Tensor scale = at::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + eps);
  return weight * (wide * scale).to(x.scalar_type());
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return at::silu(gate) * up;
}

at::Tensor rotate_halves(const at::Tensor& x, const at::Tensor& cos,
                         const at::Tensor& sin) {
  const int64_t half = cos.size(-1);
  const at::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return joined(at::cat({a * cos - b * sin, b * cos + a * sin}, -1), x);
}

at::Tensor rotate_pairs(const at::Tensor& x, const at::Tensor& cos,
                        const at::Tensor& sin) {
  const int64_t half = cos.size(-1);
  const at::Tensor pairs = x.narrow(-1, 0, 2 * half).unflatten(-1, {half, 2});
  const at::Tensor a = pairs.select(-1, 0), b = pairs.select(-1, 1);
  return joined(at::stack({a * cos - b * sin, b * cos + a * sin}, -1).flatten(-2), x);
}

at::Tensor gelu_tanh(const at::Tensor& x) { return at::gelu(x, "tanh"); }

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  const at::ScalarType type = at::promote_types(logits.scalar_type(), at::kFloat);
  return at::cross_entropy_loss(
      logits.to(type).reshape({targets.numel(), logits.size(-1)}), targets.reshape(-1),
      {}, at::Reduction::Sum, /*ignore_index=*/-1);
}

}  // namespace zero::eager
