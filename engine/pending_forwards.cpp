#include "engine/pending_forwards.h"

#include <algorithm>

#include "engine/errors.h"

namespace zero {
namespace {

bool is_over(const std::weak_ptr<torch::autograd::Node>& end) { return end.expired(); }

}  // namespace

void PendingForwards::begin(int64_t weights_version) {
  std::erase_if(forwards_, [](const Forward& forward) {
    return std::all_of(forward.ends.begin(), forward.ends.end(), is_over);
  });
  forwards_.push_back({weights_version, {}});
}

void PendingForwards::add_result(const at::Tensor& result) {
  if (result.requires_grad() && result.grad_fn())
    forwards_.back().ends.push_back(result.grad_fn());
}

void PendingForwards::take(const std::unordered_set<torch::autograd::Node*>& nodes,
                           int64_t weights_version) {
  const auto is_in_graph = [&](const Forward& forward) {
    return std::any_of(forward.ends.begin(), forward.ends.end(), [&](const auto& end) {
      const auto node = end.lock();
      return node && nodes.contains(node.get());
    });
  };
  for (const Forward& forward : forwards_) {
    if (forward.weights_version == weights_version || !is_in_graph(forward)) continue;
    throw Error(ExitCode::kUsage,
                "the weights changed between this forward and its backward",
                "Engine::backward",
                "call backward before step(), set_full_parameter() or a load");
  }
  std::erase_if(forwards_, is_in_graph);
}

bool PendingForwards::any(int64_t weights_version) {
  return std::any_of(forwards_.begin(), forwards_.end(), [&](const Forward& forward) {
    return forward.weights_version == weights_version &&
           !std::all_of(forward.ends.begin(), forward.ends.end(), is_over);
  });
}

}  // namespace zero
