#include "engine/chunks.h"

namespace zero {

bool is_batched(const at::Tensor& tensor, const std::vector<at::Tensor>& inputs) {
  return tensor.dim() > 0 && inputs.front().dim() > 0 &&
         tensor.size(0) == inputs.front().size(0);
}

std::vector<at::Tensor> chunk_of(const std::vector<at::Tensor>& inputs, int64_t c,
                                 int64_t count) {
  if (count == 1) return inputs;
  std::vector<at::Tensor> chunk;
  for (const at::Tensor& input : inputs) {
    const int64_t rows = input.dim() > 0 ? input.size(0) / count : 0;
    chunk.push_back(is_batched(input, inputs) ? input.narrow(0, c * rows, rows) : input);
  }
  return chunk;
}

static at::Tensor join(const std::vector<at::Tensor>& parts) {
  if (parts.size() == 1) return parts.front();
  if (parts.front().dim() > 0) return at::cat(parts);
  at::Tensor sum = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) sum = sum + parts[i];
  return sum;
}

std::vector<at::Tensor> join_outputs(const std::vector<std::vector<at::Tensor>>& chunks) {
  std::vector<at::Tensor> joined;
  for (size_t i = 0; i < chunks.front().size(); ++i) {
    std::vector<at::Tensor> parts;
    for (const std::vector<at::Tensor>& chunk : chunks) parts.push_back(chunk[i]);
    joined.push_back(join(parts));
  }
  return joined;
}

at::Tensor grad_of_chunk(const at::Tensor& grad, int64_t c, int64_t count) {
  if (count == 1 || !grad.defined() || grad.dim() == 0) return grad;
  const int64_t rows = grad.size(0) / count;
  return grad.narrow(0, c * rows, rows);
}

}  // namespace zero
