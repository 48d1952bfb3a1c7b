#pragma once
#include <cstdint>

namespace at {
class Tensor;
}

// The expressions of LibTorch that the functions of zero/layers.h stand for: what is done
// to tensors that our passes do not take, and what tests compare with.
namespace zero::eager {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
at::Tensor rotate_halves(const at::Tensor& x, const at::Tensor& cos,
                         const at::Tensor& sin);
at::Tensor rotate_pairs(const at::Tensor& x, const at::Tensor& cos,
                        const at::Tensor& sin);
at::Tensor gelu_tanh(const at::Tensor& x);
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets);
// `ends` may be undefined, the window 0.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& ends, int64_t window, double dropout);

}  // namespace zero::eager
