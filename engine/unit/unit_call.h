#pragma once
#include <torch/torch.h>

#include <memory>
#include <unordered_set>
#include <vector>

#include "engine/unit/call_seed.h"
#include "engine/unit/chunks.h"
#include "engine/unit/inner_graph.h"
#include "engine/unit/kept_inputs.h"
#include "engine/unit/unit_borders.h"
#include "engine/unit/unit_buffers.h"
#include "engine/unit/unit_outputs.h"

namespace zero {

class AttachedUnit;
struct Phase;

// One call of a unit with gradients: its forward, and what it keeps for its backward.
class UnitCall : public torch::CustomClassHolder {
 public:
  UnitCall(std::shared_ptr<AttachedUnit> unit, UnitBody body,
           std::vector<UnitInput> inputs);

  // What the unit returns, as part of the caller's graph if anything in it is.
  std::vector<at::Tensor> forward();

  // Gradients of the inputs from those of the node's outputs. Within Engine::backward
  // those of the unit's parameters are handed to the engine; in any other backward they
  // are left out.
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& output_grads,
                                   bool keeps_graph);

  // Throws Error(kUsage) if a backward would not belong to this forward any more.
  void require_backward() const;

  int unit() const;
  bool belongs_to(const Phase& phase) const;  // is this its engine's?
  // Roots of the graphs it keeps: calls of inner units are found from there.
  std::vector<at::Tensor> kept_outputs() const;
  // Of its graphs, kept or not: tensors of the caller's that require grad.
  const std::vector<at::Tensor>& other_leaves() const { return other_leaves_; }

 private:
  friend struct UnitNode;
  // What one chunk's run leaves for its recomputation.
  struct Trace {
    UnitBuffers::Before buffers;
    uint64_t generator_state = 0;
    std::vector<at::Tensor> exchanged;  // what it got from the other ranks
  };

  uint64_t seed_of(int64_t chunk) const;
  void require_own_calls(const std::vector<UnitCall*>& calls) const;
  std::vector<at::Tensor> run_chunk(int64_t chunk);
  static std::vector<at::Tensor> without_graphs(const std::vector<at::Tensor>& results);
  std::vector<at::Tensor> join_to_graph();
  std::unique_ptr<InnerGraph> recompute(const std::vector<at::Tensor>& all_inputs,
                                        int64_t chunk) const;
  std::vector<at::Tensor> backward_of(InnerGraph& graph,
                                      const std::vector<at::Tensor>& grads,
                                      bool keeps_graph);
  void release();

  const std::shared_ptr<AttachedUnit> unit_;
  const uint64_t number_;  // calls that begin later have greater ones
  const UnitBody body_;
  const int64_t weights_version_;
  const AutocastScope::State autocast_;
  const std::vector<bool> modes_;
  const bool may_change_inputs_;
  const Chunking chunking_;
  uint64_t seed_ = 0;
  bool draws_ = false;

  std::vector<at::Tensor> inputs_;  // the caller's; let go after forward
  std::vector<bool> wants_grad_, was_cast_;
  std::vector<at::Tensor> other_leaves_;

  UnitOutputs outputs_;
  KeptInputs kept_inputs_;                           // for recomputation
  std::vector<Trace> traces_;                        // of each chunk, when recomputed
  std::vector<std::unique_ptr<InnerGraph>> graphs_;  // of each chunk, otherwise
  bool is_released_ = false;
};

// The calls of units in the graph that a backward from `roots` would run through, those
// inside kept graphs included, every node seen on the way, and where the graph of the
// roots itself ends.
struct GraphWalk {
  std::vector<UnitCall*> calls;
  std::unordered_set<torch::autograd::Node*> nodes;
  GraphEnds ends;
};
GraphWalk walk_graph(const std::vector<at::Tensor>& roots);

}  // namespace zero
