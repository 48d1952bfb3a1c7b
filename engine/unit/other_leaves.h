#pragma once
#include <torch/torch.h>

#include <unordered_set>
#include <vector>

namespace zero {

// The leaves of a graph that are no parameters of the engine: inputs that require grad.
//
// An engine's backward runs on loss / divisor; these leaves get the gradient of the loss
// itself, added to what they have, as torch does.
class InputLeaves {
 public:
  InputLeaves(const std::unordered_set<torch::autograd::Node*>& nodes,
              const std::vector<at::Tensor>& params, double divisor);
  ~InputLeaves();  // without finish(): they have what they had
  InputLeaves(const InputLeaves&) = delete;
  InputLeaves& operator=(const InputLeaves&) = delete;

  void finish();

 private:
  const double divisor_;
  std::vector<at::Tensor> leaves_, grads_before_;
};

}  // namespace zero
