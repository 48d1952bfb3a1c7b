#include "engine/unit/pending_forwards.h"

#include <algorithm>

#include "zero/errors.h"

namespace zero {

void PendingForwards::begin_forward(int64_t weights_version) {
  std::erase_if(forwards_, [](const Forward& forward) {
    return std::all_of(forward.ends.begin(), forward.ends.end(),
                       [](const End& end) { return end.node.expired(); });
  });
  forwards_.push_back({weights_version, {}});
}

void PendingForwards::add_result(const at::Tensor& result) {
  if (result.requires_grad() && result.grad_fn())
    forwards_.back().ends.push_back({result.grad_fn()});
}

void PendingForwards::begin_backward(
    const std::unordered_set<torch::autograd::Node*>& nodes, int64_t weights_version) {
  std::vector<End*> reached;
  for (Forward& forward : forwards_) {
    for (End& end : forward.ends) {
      const auto node = end.node.lock();
      if (!node || !nodes.contains(node.get())) continue;
      if (end.has_had_backward)
        reject("a second backward through the same results of forward()",
               "Engine::backward",
               "call forward again, or backward once, on the sum of the losses");
      if (forward.weights_version != weights_version)
        reject("the weights changed between this forward and its backward",
               "Engine::backward",
               "call backward before step(), set_full_parameter() or a load");
      reached.push_back(&end);
    }
  }
  for (End* end : reached) end->has_had_backward = true;
}

bool PendingForwards::has_results_in(
    const std::unordered_set<torch::autograd::Node*>& nodes) const {
  return std::ranges::any_of(forwards_, [&](const Forward& forward) {
    return std::ranges::any_of(forward.ends, [&](const End& end) {
      return nodes.contains(end.node.lock().get());
    });
  });
}

bool PendingForwards::any(int64_t weights_version) {
  const auto is_open = [](const End& end) {
    return !end.has_had_backward && !end.node.expired();
  };
  return std::any_of(forwards_.begin(), forwards_.end(), [&](const Forward& forward) {
    return forward.weights_version == weights_version &&
           std::any_of(forward.ends.begin(), forward.ends.end(), is_open);
  });
}

}  // namespace zero
