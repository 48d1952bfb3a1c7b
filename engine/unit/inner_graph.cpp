#include "engine/unit/inner_graph.h"

#include <algorithm>
#include <unordered_set>

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
  explicit Entrance(const std::string& of) : unit(of) {}

  const std::string unit;
  at::Tensor grad;
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    grad = std::move(grads[0]);
    return {};
  }
};

bool InnerGraph::is_entrance(const torch::autograd::Node& node) {
  return dynamic_cast<const Entrance*>(&node) != nullptr;
}

const std::string& InnerGraph::unit_of(const torch::autograd::Node& entrance) {
  return dynamic_cast<const Entrance&>(entrance).unit;
}

bool InnerGraph::owns(const torch::autograd::Node& entrance) const {
  return std::ranges::any_of(entrances_,
                             [&](const auto& own) { return own.get() == &entrance; });
}

InnerGraph::InnerGraph(const std::string& unit, const UnitBody& body,
                       const std::vector<at::Tensor>& inputs,
                       const std::vector<bool>& wants_grad) {
  at::AutoGradMode enable(true);
  std::vector<at::Tensor> entering;
  std::vector<int64_t> versions;
  for (size_t i = 0; i < inputs.size(); ++i) {
    entering.push_back(inputs[i].detach());
    probes_.push_back(inputs[i].detach());
    versions.push_back(entering[i]._version());
    entrances_.push_back(wants_grad[i] ? std::make_shared<Entrance>(unit) : nullptr);
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

OtherLeaves::OtherLeaves(const std::vector<at::Tensor>& leaves, double divisor)
    : divisor_(divisor) {
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const at::Tensor& leaf : leaves) {
    if (!seen.insert(leaf.unsafeGetTensorImpl()).second) continue;
    leaves_.push_back(leaf);
    grads_before_.push_back(leaf.grad());
    leaves_.back().mutable_grad().reset();
  }
}

OtherLeaves::~OtherLeaves() {
  for (size_t i = 0; i < leaves_.size(); ++i)
    leaves_[i].mutable_grad() = grads_before_[i];
}

void OtherLeaves::finish() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const at::Tensor grad = leaves_[i].grad();
    if (!grad.defined()) continue;
    const at::Tensor whole = divisor_ == 1 ? grad : grad * divisor_;
    grads_before_[i] = grads_before_[i].defined() ? grads_before_[i] + whole : whole;
  }
}

}  // namespace zero
