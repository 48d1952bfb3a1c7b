#include "engine/unit/inner_graph.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

namespace zero {
namespace {

struct Roots {
  torch::autograd::variable_list tensors, grads;
};

Roots roots_of(const std::vector<at::Tensor>& outputs,
               const std::vector<at::Tensor>& grads) {
  Roots roots;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!grads[i].defined() || !outputs[i].requires_grad()) continue;
    roots.tensors.push_back(outputs[i]);
    roots.grads.push_back(grads[i]);
  }
  return roots;
}

}  // namespace

// Where a gradient leaves the graph.
struct InnerGraph::Entrance : torch::autograd::Node {
  at::Tensor grad;
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    grad = std::move(grads[0]);
    return {};
  }
};

InnerGraph::InnerGraph(const UnitBody& body, const std::vector<at::Tensor>& inputs,
                       const std::vector<bool>& wants_grad) {
  at::AutoGradMode enable(true);
  std::vector<at::Tensor> entering;
  std::vector<int64_t> versions;
  for (size_t i = 0; i < inputs.size(); ++i) {
    entering.push_back(inputs[i].detach());
    probes_.push_back(inputs[i].detach());
    versions.push_back(entering[i]._version());
    entrances_.push_back(wants_grad[i] ? std::make_shared<Entrance>() : nullptr);
    if (!wants_grad[i]) continue;
    const uint32_t number = entrances_[i]->add_input_metadata(entering[i]);
    torch::autograd::impl::set_gradient_edge(entering[i], {entrances_[i], number});
    torch::autograd::impl::set_gradient_edge(probes_[i], {entrances_[i], number});
  }
  outputs_ = body(entering);
  for (size_t i = 0; i < entering.size(); ++i) {
    if (entering[i]._version() == versions[i]) continue;
    changed_.push_back(i);
    outputs_.push_back(entering[i]);
  }
}

std::vector<at::Tensor> InnerGraph::backward(const std::vector<at::Tensor>& output_grads,
                                             bool keeps_graph) {
  const Roots roots = roots_of(outputs_, output_grads);
  if (!roots.tensors.empty())
    torch::autograd::backward(roots.tensors, roots.grads, keeps_graph);
  std::vector<at::Tensor> grads;
  for (const auto& entrance : entrances_)
    grads.push_back(entrance ? std::move(entrance->grad) : at::Tensor());
  return grads;
}

std::vector<at::Tensor> InnerGraph::input_grads(
    const std::vector<at::Tensor>& output_grads, bool keeps_graph) {
  const Roots roots = roots_of(outputs_, output_grads);
  std::vector<at::Tensor> grads(entrances_.size());
  torch::autograd::variable_list wanted;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (entrances_[i]) wanted.push_back(probes_[i]);
  }
  if (roots.tensors.empty() || wanted.empty()) return grads;
  const auto found = torch::autograd::grad(roots.tensors, wanted, roots.grads,
                                           keeps_graph, /*create_graph=*/false,
                                           /*allow_unused=*/true);
  for (size_t i = 0, next = 0; i < grads.size(); ++i) {
    if (entrances_[i]) grads[i] = found[next++];
  }
  return grads;
}

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
