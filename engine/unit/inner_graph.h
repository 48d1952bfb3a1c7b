#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "base/no_copy.h"
#include "zero/unit.h"

namespace zero {

// The autograd graph of one run of a unit's body, cut off from the caller's.
//
// Inputs enter as tensors of the same memory that are no leaves, so that the body may
// change them in place, as it may without an engine.
class InnerGraph {
 public:
  // Run the body of the unit of that name with gradients wanted for the inputs so marked.
  InnerGraph(const std::string& unit, const UnitBody& body,
             const std::vector<at::Tensor>& inputs, const std::vector<bool>& wants_grad);

  // Nodes where inputs enter, of any graph or of this one; and their unit.
  static bool is_entrance(const torch::autograd::Node& node);
  static const std::string& unit_of(const torch::autograd::Node& entrance);
  bool owns(const torch::autograd::Node& entrance) const;

  // What the body returned, then the inputs that it changed in place.
  const std::vector<at::Tensor>& outputs() const { return outputs_; }
  size_t num_results() const { return outputs_.size() - changed_.size(); }
  const std::vector<size_t>& changed() const { return changed_; }  // inputs, ascending

  // Backward from the outputs that have a gradient (one each, undefined: none).
  // Parameters get theirs in .grad, in the usual way. Returns the inputs' gradients.
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& output_grads,
                                   bool keeps_graph);
  // The same for the inputs alone: no parameter's gradient is computed.
  std::vector<at::Tensor> input_grads(const std::vector<at::Tensor>& output_grads,
                                      bool keeps_graph);

 private:
  struct Entrance;
  std::vector<std::shared_ptr<Entrance>> entrances_;  // null: no gradient wanted
  std::vector<at::Tensor> probes_;                    // stand for the entrances
  std::vector<at::Tensor> outputs_;
  std::vector<size_t> changed_;
};

// Leaves of a graph that are no parameters of the engine: inputs that require grad, and
// tensors of the caller's inside units.
//
// An engine's backward runs on loss / divisor; these leaves get the gradient of the loss
// itself, added to what they have, as torch does.
class OtherLeaves : NoCopy {
 public:
  OtherLeaves(const std::vector<at::Tensor>& leaves, double divisor);
  ~OtherLeaves();  // without finish(): they have what they had

  void finish();

 private:
  const double divisor_;
  std::vector<at::Tensor> leaves_, grads_before_;
};

}  // namespace zero
