#include "engine/step/torch/ignored_gradients.h"

#include <torch/torch.h>

#include <span>

namespace zero {
namespace {

std::vector<int64_t> have_gradients(const std::vector<at::Tensor>& params, Ranks& ranks) {
  std::vector<int64_t> have;
  for (const at::Tensor& param : params) have.push_back(param.grad().defined());
  ranks.all_reduce(std::span(have), ReduceOp::kMax, "ignored parameters with gradients");
  return have;
}

}  // namespace

void average_gradients(const std::vector<at::Tensor>& params, double factor,
                       Ranks& ranks) {
  if (params.empty()) return;
  const torch::NoGradGuard no_grad;
  const std::vector<int64_t> have = have_gradients(params, ranks);
  for (size_t i = 0; i < params.size(); ++i) {
    if (have[i] == 0) continue;
    const at::Tensor own = params[i].grad();
    at::Tensor sum =
        own.defined()
            ? own.to_dense().to(at::kCPU, at::kDouble).clone(at::MemoryFormat::Contiguous)
            : at::zeros(params[i].sizes(), at::kDouble);
    ranks.all_reduce(std::span(sum.data_ptr<double>(), sum.numel()), ReduceOp::kSum,
                     "gradients of ignored parameters");
    params[i].mutable_grad() = sum.mul_(factor).to(params[i].options());
  }
}

}  // namespace zero
