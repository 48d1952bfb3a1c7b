#include "engine/unit/chunks.h"

#include <algorithm>

#include "zero/errors.h"

namespace zero {
namespace {

thread_local JoinMarks* current_marks = nullptr;

at::Tensor marked(const at::Tensor& result, Join join) {
  if (current_marks) current_marks->mark(result, join);
  return result;
}

// The input that has the batch's rows: the first that is not shared.
const at::Tensor* leader_of(const std::vector<UnitInput>& inputs) {
  const auto leader = std::find_if(inputs.begin(), inputs.end(), [](const auto& input) {
    return input.rows != Rows::kShared;
  });
  return leader == inputs.end() ? nullptr : &leader->tensor;
}

std::string rows_text(int64_t rows) { return std::to_string(rows) + " rows"; }

}  // namespace

at::Tensor sum_of_chunks(const at::Tensor& result) { return marked(result, Join::kSum); }
at::Tensor mean_of_chunks(const at::Tensor& result) {
  return marked(result, Join::kMean);
}
at::Tensor same_in_chunks(const at::Tensor& result) {
  return marked(result, Join::kFirst);
}

Chunking chunking_of(const std::vector<UnitInput>& inputs, int64_t rows_per_chunk,
                     const std::string& fqn) {
  Chunking chunking{1, std::vector<bool>(inputs.size(), false)};
  const at::Tensor* leader = rows_per_chunk > 0 ? leader_of(inputs) : nullptr;
  if (!leader || leader->dim() == 0) return chunking;
  const int64_t rows = leader->size(0);
  if (rows <= rows_per_chunk) return chunking;
  if (rows % rows_per_chunk != 0)
    reject("a batch of " + rows_text(rows) + " does not divide into micro-batches of " +
               std::to_string(rows_per_chunk),
           fqn, "pass a multiple of the micro-batch, or --accumulate model");
  chunking.count = rows / rows_per_chunk;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& tensor = inputs[i].tensor;
    const bool has_rows = tensor.dim() > 0 && tensor.size(0) == rows;
    const bool is_leader = &tensor == leader;
    if (inputs[i].rows == Rows::kBatched && !has_rows)
      reject("argument tensor " + std::to_string(i) +
                 " is marked as batched, but has not the " + rows_text(rows) +
                 " of the batch",
             fqn, "zero::shared(...) for what all micro-batches use");
    if (inputs[i].rows == Rows::kUnmarked && has_rows && !is_leader)
      reject("argument tensor " + std::to_string(i) + " has " + rows_text(rows) +
                 ", as the batch: is it batched, or does it only look so?",
             fqn, "say zero::batched(...) or zero::shared(...) in the unit's call");
    chunking.is_split[i] = is_leader || inputs[i].rows == Rows::kBatched;
  }
  return chunking;
}

std::vector<at::Tensor> chunk_of(const std::vector<at::Tensor>& inputs,
                                 const Chunking& chunking, int64_t c) {
  if (chunking.count == 1) return inputs;
  std::vector<at::Tensor> chunk;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!chunking.is_split[i]) {
      chunk.push_back(inputs[i]);
      continue;
    }
    const int64_t rows = inputs[i].size(0) / chunking.count;
    chunk.push_back(inputs[i].narrow(0, c * rows, rows));
  }
  return chunk;
}

JoinMarks::JoinMarks() : outer_(current_marks) { current_marks = this; }
JoinMarks::~JoinMarks() { current_marks = outer_; }

void JoinMarks::mark(const at::Tensor& result, Join join) {
  marks_.emplace_back(result, join);
}

Join JoinMarks::of(const at::Tensor& result) const {
  for (const auto& [tensor, join] : marks_) {
    if (tensor.is_same(result)) return join;
  }
  return Join::kRows;
}

at::Tensor join_outputs(const std::vector<at::Tensor>& parts, Join join,
                        int64_t rows_per_chunk, const std::string& fqn) {
  if (parts.size() == 1 || join == Join::kFirst) return parts.front();
  if (join == Join::kRows) {
    for (const at::Tensor& part : parts) {
      if (part.dim() > 0 && part.size(0) == rows_per_chunk) continue;
      reject("a result of shape " + c10::str(part.sizes()) + " from a micro-batch of " +
                 rows_text(rows_per_chunk) + " cannot be joined row by row",
             fqn,
             "return zero::sum_of_chunks(x), mean_of_chunks(x) or "
             "same_in_chunks(x), or train with --accumulate model");
    }
    return at::cat(parts);
  }
  at::Tensor sum = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) sum = sum + parts[i];
  return join == Join::kMean ? sum / static_cast<double>(parts.size()) : sum;
}

at::Tensor grad_of_chunk(const at::Tensor& grad, Join join, int64_t c, int64_t count) {
  if (count == 1 || !grad.defined()) return grad;
  switch (join) {
    case Join::kRows: {
      const int64_t rows = grad.size(0) / count;
      return grad.narrow(0, c * rows, rows);
    }
    case Join::kSum:
      return grad;
    case Join::kMean:
      return grad / static_cast<double>(count);
    case Join::kFirst:
      break;
  }
  return c == 0 ? grad : at::Tensor();
}

at::Tensor join_grads(const std::vector<at::Tensor>& grads, bool is_split) {
  if (grads.size() == 1) return grads.front();
  const auto is_defined = [](const at::Tensor& grad) { return grad.defined(); };
  const auto first = std::find_if(grads.begin(), grads.end(), is_defined);
  if (first == grads.end()) return {};
  if (is_split) {
    std::vector<at::Tensor> rows = grads;
    for (at::Tensor& part : rows) {
      if (!part.defined()) part = at::zeros_like(*first);
    }
    return at::cat(rows);
  }
  at::Tensor sum = first->to(at::promote_types(first->scalar_type(), at::kFloat));
  for (auto grad = first + 1; grad != grads.end(); ++grad) {
    if (grad->defined()) sum = sum + *grad;
  }
  return sum.to(first->scalar_type());
}

}  // namespace zero
