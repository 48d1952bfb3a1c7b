#include "engine/unit/other_leaves.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

namespace zero {

InputLeaves::InputLeaves(const std::unordered_set<torch::autograd::Node*>& nodes,
                         const std::vector<at::Tensor>& params, double divisor)
    : divisor_(divisor) {
  std::unordered_set<const c10::TensorImpl*> own;
  for (const at::Tensor& param : params) own.insert(param.unsafeGetTensorImpl());
  for (torch::autograd::Node* node : nodes) {
    const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node);
    if (!leaf || own.contains(leaf->variable.unsafeGetTensorImpl())) continue;
    leaves_.push_back(leaf->variable);
    grads_before_.push_back(leaf->variable.grad());
    leaves_.back().mutable_grad().reset();
  }
}

InputLeaves::~InputLeaves() {
  for (size_t i = 0; i < leaves_.size(); ++i)
    leaves_[i].mutable_grad() = grads_before_[i];
}

void InputLeaves::finish() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const at::Tensor grad = leaves_[i].grad();
    if (!grad.defined()) continue;
    const at::Tensor whole = divisor_ == 1 ? grad : grad * divisor_;
    grads_before_[i] = grads_before_[i].defined() ? grads_before_[i] + whole : whole;
  }
}

}  // namespace zero
