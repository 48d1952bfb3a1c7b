#pragma once
#include <torch/torch.h>

#include <vector>

namespace zero {

// The micro-batches of one unit call, when a unit works through a whole batch
// (Accumulate::kUnit).

// Is this tensor split? It is if it has as many rows as the call's first one.
bool is_batched(const at::Tensor& tensor, const std::vector<at::Tensor>& inputs);

// Chunk `c` of `count` of the batched tensors; the others as they are.
std::vector<at::Tensor> chunk_of(const std::vector<at::Tensor>& inputs, int64_t c,
                                 int64_t count);

// What the chunks gave, output by output: rows one after the other, scalars added up.
std::vector<at::Tensor> join_outputs(const std::vector<std::vector<at::Tensor>>& chunks);

// The part of a joined output's gradient that belongs to chunk `c`.
at::Tensor grad_of_chunk(const at::Tensor& grad, int64_t c, int64_t count);

}  // namespace zero
