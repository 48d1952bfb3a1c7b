#pragma once

namespace at {
class Tensor;
}

// The passes of cross_entropy(), for those who have logits of their own.
namespace zero {

// May passes compute it? Of contiguous logits (..., classes) and targets (...) int64.
bool takes_cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

// What backward needs beside logits and targets: memory for it.
at::Tensor numbers_of_rows(const at::Tensor& logits);

// The sum: a scalar in fp64, where the logits are. `kept` (numbers_of_rows) is filled, or
// undefined. A target that is neither a class nor -1 throws; on a GPU, which nobody waits
// for, it breaks that.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& targets,
                             const at::Tensor& kept);

// Turn logits into the gradient of `factor` times the sum: a scalar of the type of
// `kept`, where the logits are.
void become_gradient(const at::Tensor& logits, const at::Tensor& targets,
                     const at::Tensor& kept, const at::Tensor& factor);

}  // namespace zero
