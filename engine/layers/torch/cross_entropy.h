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

// The sum. `kept` (numbers_of_rows) is filled, or undefined. Throws where a target is
// neither a class nor -1.
double cross_entropy_sum(const at::Tensor& logits, const at::Tensor& targets,
                         const at::Tensor& kept);

// Turn logits into the gradient of `factor` times the sum.
void become_gradient(const at::Tensor& logits, const at::Tensor& targets,
                     const at::Tensor& kept, double factor);

}  // namespace zero
