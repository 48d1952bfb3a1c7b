#include "engine/unit/unit_borders.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>

#include "engine/unit/inner_graph.h"
#include "zero/errors.h"

namespace zero {
namespace {

constexpr char kReturnIt[] =
    "return it from the unit's forward, beside the other results; detach() what a member "
    "keeps for reading";

}  // namespace

void GraphEnds::add(const torch::autograd::Node& node) {
  if (InnerGraph::is_entrance(node)) entrances.push_back(&node);
  if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(&node))
    leaves.push_back(leaf->variable);
}

UnitBorders::UnitBorders(const ScannedModel& model, const UnitPlan& plan) {
  for (size_t i = 0; i < model.tensors.size(); ++i)
    owners_[model.tensors[i].unsafeGetTensorImpl()] = {
        &model.params[i].fqn, plan.parts[plan.places[i].part].unit};
  for (const PlannedUnit& unit : plan.units) {
    const int parent = model.units[unit.description].parent;
    around_.push_back(parent < 0 ? -1 : plan.unit_of[parent]);
  }
}

bool UnitBorders::is_within(int unit, int outer) const {
  while (unit != outer && unit >= 0) unit = around_[unit];
  return unit == outer;
}

std::vector<at::Tensor> UnitBorders::other_leaves(const GraphEnds& ends, int unit,
                                                  const InnerGraph* graph) const {
  std::vector<at::Tensor> others;
  for (const at::Tensor& leaf : ends.leaves) {
    const auto owner = owners_.find(leaf.unsafeGetTensorImpl());
    if (owner == owners_.end())
      others.push_back(leaf);
    else if (!is_within(unit, owner->second.unit))
      reject("a gradient reaches this parameter, but not through the results of its unit",
             *owner->second.fqn, kReturnIt);
  }
  for (const torch::autograd::Node* entrance : ends.entrances) {
    if (graph && graph->owns(*entrance)) continue;
    reject("a gradient reaches the inputs of a unit, but not through its results",
           InnerGraph::unit_of(*entrance), kReturnIt);
  }
  return others;
}

}  // namespace zero
