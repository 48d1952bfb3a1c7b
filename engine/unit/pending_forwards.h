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
  void begin_forward(int64_t weights_version);
  void add_result(const at::Tensor& result);

  // A backward through `nodes` comes: what it reaches has had its own then. Throws
  // Error(kUsage) before anything changes if something of it was made with other weights
  // or has had a backward.
  void begin_backward(const std::unordered_set<torch::autograd::Node*>& nodes,
                      int64_t weights_version);

  bool any(int64_t weights_version);  // on these weights
  // Whether results of any of them are among `nodes`.
  bool has_results_in(const std::unordered_set<torch::autograd::Node*>& nodes) const;

 private:
  struct End {
    std::weak_ptr<torch::autograd::Node> node;
    bool has_had_backward = false;
  };
  struct Forward {
    int64_t weights_version = 0;
    std::vector<End> ends;  // of its results
  };
  std::vector<Forward> forwards_;
};

}  // namespace zero
