#pragma once
#include <torch/torch.h>

#include <string>
#include <vector>

#include "engine/unit/chunks.h"
#include "engine/unit/inner_graph.h"

namespace zero {

// Of what a body has written to an input that was cast.
[[noreturn]] void refuse_written_copy(size_t input, const std::string& fqn);

// What one call of a unit returns: which tensors are the same, inputs that the body
// changed in place, or parts of each other, in the caller's graph as without an engine.
class UnitOutputs {
 public:
  // What a node's output is: a tensor of its own, an input that was changed in place, or
  // a view of an input.
  struct Output {
    at::Tensor tensor;
    int input = -1;
    bool is_changed_input = false;
    bool is_differentiable = false;
    int view_of = -1;       // an output that it shows a part of
    bool is_fixed = false;  // nobody may change it in place

    // `tensor` as a view of another that has its memory.
    at::Tensor shown_of(const at::Tensor& base) const;
  };

  explicit UnitOutputs(const std::string& fqn) : fqn_(fqn) {}

  // Of one chunk: throws Error(kUsage) for a change of an input that the caller would not
  // see, or not as without an engine.
  void learn(const InnerGraph& graph, const JoinMarks& marks,
             const std::vector<at::Tensor>& inputs, const std::vector<bool>& was_cast);
  // From the results of all chunks, of so many rows each; 0: there is one chunk.
  void make(const std::vector<std::vector<at::Tensor>>& chunks, int64_t rows,
            const std::vector<at::Tensor>& inputs);

  const std::vector<Output>& list() const { return outputs_; }
  bool has_differentiable() const;
  bool changes_inputs() const { return !changed_inputs_.empty(); }
  bool are_those_of(const InnerGraph& graph) const {
    return graph.num_results() == place_of_result_.size() &&
           graph.changed() == changed_inputs_;
  }
  // What the caller gets, from the node's outputs. Lets go of the tensors, which know
  // their graph.
  std::vector<at::Tensor> results(std::vector<at::Tensor> of_node,
                                  std::vector<at::Tensor>& inputs);
  // From gradients of the node's outputs to gradients of the graph's.
  std::vector<at::Tensor> grads_of_chunk(const std::vector<at::Tensor>& output_grads,
                                         const InnerGraph& graph, int64_t chunk,
                                         int64_t num_chunks) const;

 private:
  void find_bases(const std::vector<at::Tensor>& seen);
  bool shares_unseen(const Output& output, const std::vector<at::Tensor>& inputs) const;
  void require_may_change(size_t input, const std::vector<at::Tensor>& inputs,
                          bool was_cast) const;

  const std::string& fqn_;
  // Of each tensor that the body returned: its place among outputs_.
  std::vector<size_t> place_of_result_;
  std::vector<Output> outputs_;
  std::vector<Join> joins_;
  std::vector<bool> is_differentiable_;  // of each result
  std::vector<size_t> changed_inputs_;
  std::vector<at::Tensor> changed_tensors_;  // the same, inside; let go after forward
};

}  // namespace zero
