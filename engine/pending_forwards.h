#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

namespace zero {

// The forwards whose graphs may still get a backward: until they had it, or nobody holds
// their results any more.
class PendingForwards {
 public:
  // A forward with gradients on these weights begins; its results are added.
  void begin(int64_t weights_version);
  void add_result(const at::Tensor& result);

  // Those that a backward through `nodes` belongs to have had theirs. Throws
  // Error(kUsage) before anything changes if one was on other weights.
  void take(const std::unordered_set<torch::autograd::Node*>& nodes,
            int64_t weights_version);

  bool any(int64_t weights_version);  // on these weights
  void forget() { forwards_.clear(); }

 private:
  struct Forward {
    int64_t weights_version = 0;
    std::vector<std::weak_ptr<torch::autograd::Node>> ends;
  };
  std::vector<Forward> forwards_;
};

}  // namespace zero
