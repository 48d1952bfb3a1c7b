#include "engine/unit/unit_outputs.h"

#include <algorithm>
#include <functional>

#include "engine/weights/torch/flat_params.h"
#include "zero/errors.h"

namespace zero {
namespace {

std::string changes_input(size_t input) {
  return "the unit changes its input tensor " + std::to_string(input) + " in place, ";
}

// The caller's tensor has the changed values already; now their history is its own, too.
// Of a view only torch can tell its base, by writing once more; what a kept graph saved
// is still as it was.
void give_history(at::Tensor& changed, const at::Tensor& output) {
  if (!changed.is_view()) {
    torch::autograd::impl::set_gradient_edge(
        changed, torch::autograd::impl::gradient_edge(output));
    return;
  }
  c10::VariableVersion version = changed.unsafeGetTensorImpl()->version_counter();
  const auto before = static_cast<int64_t>(version.current_version());
  changed.copy_(output);
  version.set_version(before);
}

// Is `view` made from the whole of `base` by torch's own view functions?
bool is_view_of(const at::Tensor& view, const at::Tensor& base) {
  if (!view.is_view() || base.is_view() || !base.is_contiguous()) return false;
  return view._base().is_same(base) && view.scalar_type() == base.scalar_type() &&
         torch::autograd::impl::get_view_autograd_meta(view)->get_creation_meta() ==
             torch::autograd::CreationMeta::DEFAULT;
}

// Where its last element begins.
const char* last_of(const at::Tensor& tensor) {
  int64_t last = 0;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim)
    last += (tensor.size(dim) - 1) * tensor.stride(dim);
  return static_cast<const char*>(tensor.const_data_ptr()) +
         last * static_cast<int64_t>(tensor.itemsize());
}

// Does one of its elements begin from `begin` to `end`? Those of its dimensions from
// `dim` on, of which `first` is the first.
bool has_element_in(const at::Tensor& tensor, const char* begin, const char* end,
                    int64_t dim, const char* first) {
  if (dim == tensor.dim()) return first >= begin && first <= end;
  const int64_t step = tensor.stride(dim) * static_cast<int64_t>(tensor.itemsize());
  for (int64_t i = 0; i < tensor.size(dim); ++i) {
    if (has_element_in(tensor, begin, end, dim + 1, first + i * step)) return true;
  }
  return false;
}

// Of a tensor without gaps, which is told by its ends.
bool holds_of(const at::Tensor& dense, const at::Tensor& other) {
  if (!dense.is_non_overlapping_and_dense()) return false;
  const auto* begin = static_cast<const char*>(dense.const_data_ptr());
  const auto* first = static_cast<const char*>(other.const_data_ptr());
  const char* const end = last_of(dense);
  if (first > end || last_of(other) < begin) return false;
  return other.is_non_overlapping_and_dense() ||
         has_element_in(other, begin, end, 0, first);
}

// Have they an element in common, of dimensions from `dim` on, where b begins `distance`
// elements behind a? Both have these strides, the largest first.
bool meet(const at::Tensor& a, const at::Tensor& b, int64_t dim, int64_t distance) {
  if (dim == a.dim()) return distance == 0;
  const int64_t stride = a.stride(dim);
  if (stride == 0) return meet(a, b, dim + 1, distance);
  const int64_t below = distance / stride - (distance % stride < 0);
  for (const int64_t steps : {below, below + 1}) {
    if (steps > -b.size(dim) && steps < a.size(dim) &&
        meet(a, b, dim + 1, distance - steps * stride))
      return true;
  }
  return false;
}

// Of slices of one tensor, whose rows do not reach into the next; others with gaps are
// not compared.
bool are_slices_that_meet(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.strides() == b.strides() &&
         std::ranges::is_sorted(a.strides(), std::greater<>()) &&
         meet(a, b, 0, b.storage_offset() - a.storage_offset());
}

bool share_memory(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_same(b)) return true;
  if (!a.has_storage() || !b.has_storage() || a.numel() == 0 || b.numel() == 0 ||
      !a.storage().is_alias_of(b.storage()) || !a.storage().data())
    return false;
  return holds_of(a, b) || holds_of(b, a) || are_slices_that_meet(a, b);
}

// Any view will do that autograd takes for one of several of a node: it refuses to change
// them in place.
at::Tensor unchangeable(const at::Tensor& tensor) {
  return tensor.unsqueeze(0).unbind(0)[0];
}

// Weights go away: what lies in them is copied.
UnitOutputs::Output output_from(const at::Tensor& result,
                                const std::vector<at::Tensor>& inputs) {
  if (is_flat(result)) return {result.clone()};
  for (size_t i = 0; i < inputs.size() && result.has_storage(); ++i) {
    if (inputs[i].has_storage() && result.storage().is_alias_of(inputs[i].storage()) &&
        result.scalar_type() == inputs[i].scalar_type())
      return {result, static_cast<int>(i)};
  }
  return {result};
}

}  // namespace

at::Tensor UnitOutputs::Output::shown_of(const at::Tensor& base) const {
  at::Tensor view =
      base.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (view.is_conj() != tensor.is_conj()) view = at::_conj(view);
  return view.is_neg() == tensor.is_neg() ? view : at::_neg_view(view);
}

// Only a graph tells which results need a gradient; with several chunks, if any says so.
void UnitOutputs::learn(const InnerGraph& graph, const JoinMarks& marks,
                        const std::vector<at::Tensor>& inputs,
                        const std::vector<bool>& was_cast) {
  const bool is_first = joins_.empty();
  is_differentiable_.resize(graph.num_results(), false);
  for (size_t i = 0; i < graph.num_results(); ++i) {
    if (graph.outputs()[i].requires_grad()) is_differentiable_[i] = true;
    if (is_first) joins_.push_back(marks.of(graph.outputs()[i]));
  }
  changed_inputs_ = graph.changed();
  for (size_t k = 0; k < changed_inputs_.size(); ++k) {
    const size_t input = changed_inputs_[k];
    require_may_change(input, inputs, was_cast[input]);
    const at::Tensor& changed = graph.outputs()[graph.num_results() + k];
    outputs_.push_back({changed.detach().clone(), static_cast<int>(input), true,
                        changed.requires_grad()});
    changed_tensors_.push_back(changed);
  }
}

void refuse_written_copy(size_t input, const std::string& fqn) {
  reject(changes_input(input) + "but was given a copy in another type", fqn,
         "pass it in the type that the unit computes in");
}

void UnitOutputs::require_may_change(size_t input, const std::vector<at::Tensor>& inputs,
                                     bool was_cast) const {
  if (was_cast) refuse_written_copy(input, fqn_);
  if (inputs[input].is_leaf() && inputs[input].requires_grad())
    reject(changes_input(input) + "which is a leaf that requires grad", fqn_,
           "pass a clone of it");
  for (size_t other = 0; other < inputs.size(); ++other) {
    if (other == input || !share_memory(inputs[other], inputs[input])) continue;
    const bool is_same = inputs[other].is_same(inputs[input]);
    reject((is_same ? "the unit was given one tensor twice, as "
                    : "the unit was given tensors that share memory, ") +
               std::to_string(other) + " and " + std::to_string(input) +
               ", and changes " + (is_same ? "it" : "one") + " in place",
           fqn_, "pass a clone of it");
  }
}

void UnitOutputs::make(const std::vector<std::vector<at::Tensor>>& chunks, int64_t rows,
                       const std::vector<at::Tensor>& inputs) {
  for (const auto& results : chunks) {
    if (results.size() == chunks.front().size()) continue;
    reject("micro-batches of one call return different tensors", fqn_,
           "return the same structure each time");
  }
  // A tensor that is returned twice is one output.
  std::vector<at::Tensor> seen = std::move(changed_tensors_);
  for (size_t i = 0; i < chunks.front().size(); ++i) {
    const at::Tensor& result = chunks.front()[i];
    const auto same = std::ranges::find_if(
        seen, [&](const auto& other) { return other.is_same(result); });
    place_of_result_.push_back(same - seen.begin());
    if (same != seen.end()) continue;
    std::vector<at::Tensor> parts;
    for (const auto& results : chunks) parts.push_back(results[i].detach());
    Output output = output_from(join_outputs(parts, joins_[i], rows, fqn_), inputs);
    output.is_differentiable =
        is_differentiable_[i] &&
        torch::autograd::isDifferentiableType(result.scalar_type());
    seen.push_back(result);
    outputs_.push_back(std::move(output));
  }
  if (chunks.size() == 1) find_bases(seen);
  for (Output& output : outputs_) output.is_fixed = shares_unseen(output, inputs);
}

// From the tensors of outputs_ as the body made them.
void UnitOutputs::find_bases(const std::vector<at::Tensor>& seen) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    for (size_t k = 0; k < outputs_.size() && outputs_[i].view_of < 0; ++k) {
      if (k != i && outputs_[k].is_differentiable && is_view_of(seen[i], seen[k]) &&
          outputs_[i].tensor.storage().is_alias_of(outputs_[k].tensor.storage()))
        outputs_[i].view_of = static_cast<int>(k);
    }
  }
}

// Has it memory of another tensor of the caller's, of which autograd does not know?
bool UnitOutputs::shares_unseen(const Output& output,
                                const std::vector<at::Tensor>& inputs) const {
  if (!output.is_differentiable || output.input >= 0) return false;
  if (output.view_of >= 0) return shares_unseen(outputs_[output.view_of], inputs);
  const auto is_shared = [&](const at::Tensor& other) {
    return share_memory(output.tensor, other);
  };
  const auto place = &output - outputs_.data();
  return std::ranges::any_of(inputs, is_shared) ||
         std::ranges::any_of(outputs_, [&](const Output& other) {
           return &other != &output && other.view_of != place && is_shared(other.tensor);
         });
}

bool UnitOutputs::has_differentiable() const {
  return std::ranges::any_of(outputs_, &Output::is_differentiable);
}

std::vector<at::Tensor> UnitOutputs::results(std::vector<at::Tensor> of_node,
                                             std::vector<at::Tensor>& inputs) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].is_changed_input) continue;
    at::Tensor& changed = inputs[outputs_[i].input];
    if (outputs_[i].is_differentiable) give_history(changed, of_node[i]);
    of_node[i] = changed;
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].view_of < 0 || !outputs_[i].is_differentiable) continue;
    of_node[i] = outputs_[i].shown_of(of_node[outputs_[i].view_of]);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].is_fixed) of_node[i] = unchangeable(of_node[i]);
  }
  for (Output& output : outputs_) output.tensor.reset();
  std::vector<at::Tensor> results;
  for (const size_t place : place_of_result_) results.push_back(of_node[place]);
  return results;
}

std::vector<at::Tensor> UnitOutputs::grads_of_chunk(
    const std::vector<at::Tensor>& output_grads, const InnerGraph& graph, int64_t chunk,
    int64_t num_chunks) const {
  std::vector<at::Tensor> grads(graph.outputs().size());
  std::vector<bool> is_used(outputs_.size(), false);
  for (size_t i = 0; i < place_of_result_.size(); ++i) {
    const size_t place = place_of_result_[i];
    if (is_used[place]) continue;
    is_used[place] = true;
    grads[i] = grad_of_chunk(output_grads[place], joins_[i], chunk, num_chunks);
    if (grads[i].defined() && grads[i].sizes() != graph.outputs()[i].sizes())
      reject("recomputing gave a result of shape " +
                 c10::str(graph.outputs()[i].sizes()) + ", the forward one of " +
                 c10::str(grads[i].sizes()),
             fqn_,
             "let forward depend on its arguments, parameters and registered "
             "buffers alone");
  }
  for (size_t k = 0; k < changed_inputs_.size(); ++k) {
    if (!is_used[k]) grads[graph.num_results() + k] = output_grads[k];
  }
  return grads;
}

}  // namespace zero
