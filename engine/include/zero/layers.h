#pragma once
#include <cstdint>
#include <utility>

namespace at {
class Tensor;
}

// Parts of a transformer's layers as functions: one pass forward, one backward, and few
// tensors kept between.
//
// Each gives what the expression of LibTorch beside it gives, with its roundings: sums
// and exponentials differ in the last bits, everything else in none; gradients of short
// types are rounded no more often than its. fp32, bf16, fp16 and fp64 tensors of a CPU
// are computed by passes of ours, with LibTorch's number of threads, and the same bits
// with any number; fp32, bf16 and fp16 tensors of a GPU by kernels that give these bits,
// in LibTorch's current stream; all others, and derivatives of higher order, by that
// expression. causal_attention() has first derivatives alone on a CPU, as LibTorch's has.
namespace zero {

// x (..., dim), weight (dim) -> (..., dim): divide by the root of the mean square, in
// fp32, round to the type of x, and multiply by weight. Keeps x, weight, and a number of
// each row.
//
//   weight * (x.to(fp32) * rsqrt(x.to(fp32).square().mean(-1) + eps)).to(type of x)
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// x + added, and rms_norm() of it. Keeps the sum, weight, and a number of each row.
std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x,
                                               const at::Tensor& added,
                                               const at::Tensor& weight, double eps);

// silu(gate) * up. Keeps both.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

// GELU as GPT-2 has it, gelu(x, "tanh"). Keeps x. That by the error function is fast in
// LibTorch.
at::Tensor gelu_tanh(const at::Tensor& x);

// x (B, H, T, D), cos and sin (T, n) of its type, or (B, T, n) where rows have positions
// of their own: turn n pairs (a, b) of each head's first 2 n values, to
// (a cos - b sin, b cos + a sin); the rest stays. Pairs are those
// that lie n apart, or side by side. Keeps cos and sin.
at::Tensor rotate_halves(const at::Tensor& x, const at::Tensor& cos,
                         const at::Tensor& sin);
at::Tensor rotate_pairs(const at::Tensor& x, const at::Tensor& cos,
                        const at::Tensor& sin);

// x (..., in), weight (out, in), bias (out) or undefined -> (..., out):
//
//   linear(x, weight, bias)
//
// In a FewRowsScope, of few rows of fp32 on the host (8, or 16 where MKL is slow) and
// without gradients, by a pass that reads the weight, or the tensor that it is the
// transpose of, at the speed of memory.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// While one lives on a thread, texts grow by a token at a time there, and linear() need
// not have LibTorch's last bits.
class FewRowsScope {
 public:
  FewRowsScope();
  ~FewRowsScope();
  FewRowsScope(const FewRowsScope&) = delete;
  FewRowsScope& operator=(const FewRowsScope&) = delete;

 private:
  const bool before_;
};

// logits (..., classes), targets (...) int64, of which -1 are ignored -> scalar, in fp32
// for short types: the sum of the cross entropies. Keeps the logits and two numbers of
// each row. Backward turns the logits into their gradient where nobody else has them. A
// target that is neither a class nor -1 throws; on a GPU it breaks that, as LibTorch's.
//
//   cross_entropy(logits.to(fp32).view({-1, classes}), targets.view(-1), sum, ignore -1)
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

// logits (n, classes), targets (n) -> (n) bool: is the target's logit the first of the
// largest ones? In a row with a NaN none is.
at::Tensor is_largest(const at::Tensor& logits, const at::Tensor& targets);

// q (B, H, T, D), k and v (B, Hk, T, D), of which each serves H / Hk heads in a row ->
// (B, H, T, D): a query sees the last `window` keys up to its own, with 0 all of them.
// Keeps all four, and a number of each query.
//
// LibTorch's flash kernels compute it, which keep no scores: with a window and on the
// host a part of the queries at a time, so that a token costs what its window does;
// without dropout there, and of short types and heads up to 192 on a GPU. Else by
//
//   scaled_dot_product_attention(q, k, v, mask, dropout)
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            int64_t window = 0, double dropout = 0);

// The same of rows that hold several documents, none of which sees another, nor has a
// bit of its results from another. `document_ends` (B, n), int64 in the host's memory:
// where the documents of each row end; the last ends with the row, and may stand more
// than once.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& document_ends, int64_t window = 0,
                            double dropout = 0);

}  // namespace zero
