// Operators that LibTorch has for GPUs alone, on the stand-in, made of others that run
// there. They refuse what GPUs' kernels refuse, and what these would answer with
// nonsense. Flash attention is made of matrices of all scores, in fp64.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <limits>

namespace {

using Maybe = std::optional<at::Tensor>;

void check_heads(const at::Tensor& x, const at::Tensor& q, bool has_packs) {
  TORCH_CHECK(x.is_cuda() && x.scalar_type() == q.scalar_type() &&
                  (x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16),
              "FlashAttention only support fp16 and bf16 data type");
  TORCH_CHECK(x.dim() == (has_packs ? 3 : 4), "flash takes (B, T, H, D) or (B T, H, D)");
  TORCH_CHECK(x.stride(-1) == 1, "Input tensor must have contiguous last dimension");
  TORCH_CHECK(x.size(-1) == q.size(-1) && x.size(-1) % 8 == 0 && x.size(-1) <= 256,
              "head_size should be a multiple of 8, and at most 256");
  TORCH_CHECK(q.size(-2) % x.size(-2) == 0,
              "Number of heads in key/value must divide number of heads in query");
}

void check_begins(const Maybe& begins, const at::Tensor& q) {
  if (!begins) return;
  TORCH_CHECK(begins->scalar_type() == at::kInt && begins->is_contiguous() &&
                  begins->device() == q.device() && begins->numel() > 1,
              "cu_seqlens_q must have dtype int32, on the GPU");
}

// Which keys a query does not see, (T, T). Document i is [begins[i], begins[i + 1]).
at::Tensor hidden_keys(const at::Tensor& q, const Maybe& begins, int64_t longest,
                       std::optional<int64_t> left) {
  const int64_t length = q.size(-3);
  const at::Tensor places = at::arange(length, q.options().dtype(at::kLong));
  const at::Tensor behind = places.unsqueeze(1) - places;
  at::Tensor hidden = behind < 0;
  if (left.value_or(-1) >= 0) hidden = hidden.logical_or(behind > *left);
  if (!begins) {
    TORCH_CHECK(longest == length, "max_q is not the length of a row");
    return hidden;
  }
  // No kernel looks behind the longest document, as it is told.
  const at::Tensor ends = begins->slice(0, 1).to(at::kLong);
  const at::Tensor document = (ends <= places.unsqueeze(1)).sum(-1);
  return hidden.logical_or(document.unsqueeze(1) != document)
      .logical_or(behind >= longest);
}

// (..., T, H, D) -> (..., H, T, D) in fp64, heads of keys as often as queries need them.
at::Tensor wide_heads(const at::Tensor& x, const at::Tensor& q) {
  return x.to(at::kDouble)
      .transpose(-3, -2)
      .contiguous()
      .repeat_interleave(q.size(-2) / x.size(-2), -3);
}
at::Tensor as_given(const at::Tensor& wide, const at::Tensor& like) {
  const int64_t group = wide.size(-3) / like.size(-2);
  return wide.unflatten(-3, {like.size(-2), group})
      .sum(-3)
      .transpose(-3, -2)
      .contiguous()
      .to(like.scalar_type());
}

double scale_of(const at::Tensor& q, std::optional<double> scale) {
  return scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1))));
}

at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& hidden,
                     std::optional<double> scale) {
  const at::Tensor all = wide_heads(q, q).matmul(wide_heads(k, q).transpose(-2, -1));
  return (all * scale_of(q, scale))
      .masked_fill(hidden, -std::numeric_limits<double>::infinity());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> forward(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Maybe& begins,
    const Maybe& key_begins, int64_t longest, int64_t longest_key, double dropout,
    bool is_causal, bool, std::optional<double> scale, std::optional<int64_t> left,
    std::optional<int64_t> right, const Maybe&, const Maybe&) {
  for (const at::Tensor& x : {q, k, v}) check_heads(x, q, begins.has_value());
  check_begins(begins, q);
  TORCH_CHECK(
      begins.has_value() == key_begins.has_value() && longest == longest_key &&
          is_causal && right.value_or(0) == 0 && dropout == 0,
      "the stand-in's flash attention is causal, of queries and keys of one length");
  const at::Tensor scores = scores_of(q, k, hidden_keys(q, begins, longest, left), scale);
  const at::Tensor values = scores.softmax(-1).matmul(wide_heads(v, q));
  const at::Tensor none = at::empty({0}, q.options());
  return {as_given(values, q), scores.logsumexp(-1), none, none, none};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor&, const at::Tensor& sums, const at::Tensor& begins,
    const at::Tensor&, int64_t longest, int64_t, double, bool, const at::Tensor&,
    const at::Tensor&, std::optional<double> scale, std::optional<int64_t> left,
    std::optional<int64_t>) {
  const Maybe packs = begins.defined() ? Maybe(begins) : std::nullopt;
  const at::Tensor hidden = hidden_keys(q, packs, longest, left);
  const at::Tensor weights = (scores_of(q, k, hidden, scale) - sums.unsqueeze(-1)).exp();
  const at::Tensor given = wide_heads(grad, q);
  const at::Tensor of_weights = given.matmul(wide_heads(v, q).transpose(-2, -1));
  const at::Tensor of_scores =
      weights * (of_weights - (of_weights * weights).sum(-1, /*keepdim=*/true)) *
      scale_of(q, scale);
  return {as_given(of_scores.matmul(wide_heads(k, q)), q),
          as_given(of_scores.transpose(-2, -1).matmul(wide_heads(q, q)), k),
          as_given(weights.transpose(-2, -1).matmul(given), v)};
}

// A product of short elements whose result is longer.
at::Tensor& addmm_out(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b,
                      at::ScalarType type, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(),
              "input dtypes must be the same, got: input ", a.scalar_type(), " weight ",
              b.scalar_type());
  TORCH_CHECK(type == at::kFloat && out.scalar_type() == type &&
                  sum.scalar_type() == type &&
                  (a.scalar_type() == at::kHalf || a.scalar_type() == at::kBFloat16),
              "out_dtype must be float32 for fp16 and bf16 inputs");
  return at::addmm_out(out, sum, a.to(type), b.to(type), beta, alpha);
}

at::Tensor mm(const at::Tensor& a, const at::Tensor& b, at::ScalarType type) {
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options().dtype(type));
  return addmm_out(out, a, b, type, /*beta=*/0, /*alpha=*/1, out);
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("mm.dtype", &mm);
  library.impl("addmm.dtype_out", &addmm_out);
  library.impl("_flash_attention_forward", &forward);
  library.impl("_flash_attention_backward", &backward);
}

}  // namespace
