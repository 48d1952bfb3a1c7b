#pragma once
#include <cstdint>

namespace at {
class Tensor;
}

namespace zero {

// The sum of the cross entropies of hidden * weight^T + bias against targets, without
// ever having all logits: those of `chunk` tokens are made, used and forgotten.
//
// hidden (..., dim), weight (vocab, dim) and bias (vocab) of the same type, undefined:
// none, targets (...) int64, of which -1 are ignored -> scalar fp32. Logits and their
// gradient are of the type of hidden, the softmax is fp32, of fp64 fp64. Gradients of
// hidden, weight and bias, as far as they are needed, are made in the same pass and wait
// for backward, those of weight and bias summed over chunks in fp32; in a unit that is
// recomputed they are made in its recomputation alone. `weight` itself is not kept: a
// unit may release it. First derivatives only.
//
// Throws Error(kUsage) when sizes do not fit together, or chunk is below 1.
at::Tensor chunked_loss(const at::Tensor& hidden, const at::Tensor& weight,
                        const at::Tensor& targets, int64_t chunk);
at::Tensor chunked_loss(const at::Tensor& hidden, const at::Tensor& weight,
                        const at::Tensor& bias, const at::Tensor& targets, int64_t chunk);

}  // namespace zero
