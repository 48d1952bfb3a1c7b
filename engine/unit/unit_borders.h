#pragma once
#include <torch/torch.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/unit/model_scan.h"

namespace zero {

class InnerGraph;

// Where a graph ends.
struct GraphEnds {
  std::vector<at::Tensor> leaves;                       // parameters and others
  std::vector<const torch::autograd::Node*> entrances;  // InnerGraph's, where inputs
                                                        // enter

  void add(const torch::autograd::Node& node);  // if it is one
};

// Which gradients belong where. A graph inside a unit ends in the unit's inputs, in its
// own parameters and in those of units around it; one outside of all units ends in the
// root's. A gradient that reaches another unit's went past the results of that unit,
// which alone pass gradients on: through a tensor that its forward left in a member, say.
class UnitBorders {
 public:
  UnitBorders(const ScannedModel& model, const UnitPlan& plan);

  // The leaves that are no parameters. `unit`: of the plan, 0 outside of all; `graph`:
  // the unit's own, null outside. Throws Error(kUsage) that names the parameter or the
  // unit whose gradient would be lost.
  std::vector<at::Tensor> other_leaves(const GraphEnds& ends, int unit,
                                       const InnerGraph* graph) const;

 private:
  struct Owner {
    const std::string* fqn = nullptr;
    int unit = 0;
  };

  bool is_within(int unit, int outer) const;

  std::unordered_map<const c10::TensorImpl*, Owner> owners_;
  std::vector<int> around_;  // of each unit of the plan: the one around it, -1 at the
                             // root
};

}  // namespace zero
