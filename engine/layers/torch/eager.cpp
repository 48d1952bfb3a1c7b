#include "engine/layers/torch/eager.h"

#include "engine/layers/torch/passes.h"

namespace zero::eager {
namespace {

// With what is not turned.
at::Tensor joined(const at::Tensor& turned, const at::Tensor& x) {
  const int64_t dim = turned.size(-1), rest = x.size(-1) - dim;
  return rest == 0 ? turned : at::cat({turned, x.narrow(-1, dim, rest)}, -1);
}

// Angles (B, T, n) are those of all heads.
at::Tensor of_heads(const at::Tensor& angles) {
  return angles.dim() == 3 ? angles.unsqueeze(1) : angles;
}

// Which keys a query sees, (T, T) or (B, 1, T, T); undefined: all up to its own.
at::Tensor seen_keys(const at::Tensor& q, const at::Tensor& ends, int64_t window) {
  if (window == 0 && !ends.defined()) return {};
  const at::Tensor places = at::arange(q.size(2), q.options().dtype(at::kLong));
  const at::Tensor behind = places.unsqueeze(1) - places;  // of a query to a key
  at::Tensor seen = behind >= 0;
  if (window > 0) seen = seen.logical_and(behind < window);
  if (!ends.defined()) return seen;
  const at::Tensor is_behind =
      ends.to(q.device()).unsqueeze(1) <= places.unsqueeze(1);  // (B, T, n)
  const at::Tensor document = is_behind.sum(-1);                // (B, T)
  const at::Tensor is_same = document.unsqueeze(2) == document.unsqueeze(1);
  return seen.logical_and(is_same).unsqueeze(1);
}

// Does LibTorch compute it by its flash kernels, which read keys and values of a group
// once for all its queries? What it computes otherwise copies them for each.
bool flash_takes_groups(const at::Tensor& q, const at::Tensor& mask, double dropout) {
  constexpr int64_t kMaxHeadDim = 256;  // of GPUs
  if (q.is_cpu()) return dropout == 0;
  const bool has_16_bits =
      q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  return has_16_bits && !mask.defined() && q.size(-1) <= kMaxHeadDim;
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

at::Tensor rotate_halves(const at::Tensor& x, const at::Tensor& given_cos,
                         const at::Tensor& given_sin) {
  const at::Tensor cos = of_heads(given_cos), sin = of_heads(given_sin);
  const int64_t half = cos.size(-1);
  const at::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return joined(at::cat({a * cos - b * sin, b * cos + a * sin}, -1), x);
}

at::Tensor rotate_pairs(const at::Tensor& x, const at::Tensor& given_cos,
                        const at::Tensor& given_sin) {
  const at::Tensor cos = of_heads(given_cos), sin = of_heads(given_sin);
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

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& ends, int64_t window, double dropout) {
  const at::Tensor mask = seen_keys(q, ends, window);
  const std::optional<at::Tensor> seen = maybe(mask);
  const auto call = [&](const at::Tensor& queries, bool has_groups) {
    return at::scaled_dot_product_attention(queries, k, v, seen, dropout,
                                            /*is_causal=*/!mask.defined(),
                                            /*scale=*/{}, has_groups);
  };
  const int64_t num_kv_heads = k.size(1), group = q.size(1) / num_kv_heads;
  if (group == 1 || flash_takes_groups(q, mask, dropout)) return call(q, group > 1);
  const at::Tensor grouped = q.unflatten(1, {num_kv_heads, group});
  std::vector<at::Tensor> parts;  // (B, Hk, T, D), of each query of a group
  for (int64_t i = 0; i < group; ++i) parts.push_back(call(grouped.select(2, i), false));
  return at::stack(parts, 2).flatten(1, 2);
}

}  // namespace zero::eager
