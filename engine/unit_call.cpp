#include "engine/unit_call.h"

#include <algorithm>

#include "engine/activity.h"
#include "engine/call_seed.h"
#include "engine/errors.h"
#include "engine/flat_params.h"
#include "engine/phase.h"
#include "engine/trace.h"
#include "engine/unit_runtime.h"
#include "offload/philox.h"

namespace zero {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Direction = WeightStreamer::Direction;

// The node of one unit call in the caller's graph.
struct UnitNode : torch::autograd::Function<UnitNode> {
  // `inputs`: the unit's tensors, then one dummy that requires grad, so that autograd
  // calls backward even if no input does.
  static variable_list forward(AutogradContext* context, at::TensorList inputs,
                               const c10::intrusive_ptr<UnitCall>& call) {
    context->set_materialize_grads(false);
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    variable_list results, constants;
    for (const UnitCall::Output& output : call->outputs_) {
      if (!output.is_differentiable) constants.push_back(output.tensor);
      const bool is_view = output.input >= 0 && !output.is_changed_input;
      results.push_back(is_view && output.is_differentiable
                            // Of the input, so that autograd knows what they share.
                            ? inputs[output.input].as_strided(
                                  output.tensor.sizes(), output.tensor.strides(),
                                  output.tensor.storage_offset())
                            : output.tensor);
    }
    context->mark_non_differentiable(constants);
    return results;
  }

  static variable_list backward(AutogradContext* context, variable_list output_grads) {
    variable_list grads = call_of(context).backward(
        output_grads, torch::autograd::get_current_graph_task_keep_graph());
    grads.emplace_back();  // of the dummy
    grads.emplace_back();  // of the call
    return grads;
  }

  static UnitCall& call_of(AutogradContext* context) {
    return *c10::static_intrusive_pointer_cast<UnitCall>(
        context->saved_data["call"].toCapsule());
  }
};

namespace {

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

}  // namespace

UnitCall::UnitCall(std::shared_ptr<AttachedUnit> unit, UnitBody body,
                   std::vector<UnitInput> inputs)
    : unit_(std::move(unit)),
      body_(std::move(body)),
      weights_version_(unit_->phase_.weights_version),
      modes_(unit_->modes_.current()),
      may_change_inputs_(!unit_->recomputes_ || unit_->may_change_inputs(modes_)),
      chunking_(chunking_of(inputs, unit_->chunk_rows_, unit_->fqn_)),
      kept_inputs_(unit_->activations_.get()) {
  for (const UnitInput& input : inputs) {
    inputs_.push_back(unit_->cast(input.tensor));
    was_cast_.push_back(!inputs_.back().is_same(input.tensor));
    wants_grad_.push_back(input.tensor.requires_grad());
  }
}

std::vector<at::Tensor> UnitCall::forward() {
  AttachedUnit& unit = *unit_;
  const Activity::Stretch stretch(unit.fqn_, "forward");
  const StreamClock::Span drawn = unit.weights_.drawn("forward", unit.fqn_);
  {
    const CallSeed seed(unit.fqn_);
    seed_ = seed.seed();
    draws_ = seed.draws();
    const WeightStreamer::Unsharded unsharded(unit.weights_, unit.index_,
                                              Direction::kForward);
    const AutocastScope autocast(autocast_);
    // Where the body may change an input, recomputation starts from a copy.
    if (unit.recomputes_) kept_inputs_.keep(inputs_, may_change_inputs_);
    const auto weights = unit.watch_weights();
    std::vector<std::vector<at::Tensor>> chunks;
    for (int64_t c = 0; c < chunking_.count; ++c) chunks.push_back(run_chunk(c));
    unit.require_same_weights(weights);
    make_outputs(chunks);
  }
  unit.learn(modes_, !changed_inputs_.empty());
  return join_to_graph();
}

std::vector<at::Tensor> UnitCall::run_chunk(int64_t chunk) {
  AttachedUnit& unit = *unit_;
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& input : inputs_) inputs.push_back(input.detach());
  inputs = chunk_of(inputs, chunking_, chunk);

  const CallSeed seed(seed_of(chunk), draws_, unit.device_);
  UnitBuffers::Watch buffers = unit.buffers_.watch(!unit.is_known(modes_));
  const JoinMarks marks;
  // With its graph even where that is thrown away: a body may ask what needs a gradient.
  auto graph = std::make_unique<InnerGraph>(body_, inputs, wants_grad_);
  std::vector<at::Tensor> results(
      graph->outputs().begin(),
      graph->outputs().begin() + static_cast<std::ptrdiff_t>(graph->num_results()));
  note_outputs(*graph);
  if (!unit.recomputes_) graphs_.push_back(std::move(graph));
  if (!changed_inputs_.empty() && (chunking_.count > 1 || !may_change_inputs_))
    unit.refuse_changed_input(chunking_.count > 1);
  if (chunking_.count > 1) unit.require_same_buffers(buffers);
  if (chunk == 0) {
    for (const at::Tensor& result : results) joins_.push_back(marks.of(result));
  }
  if (unit.recomputes_ && chunking_.count > 1) results = without_graphs(results);
  if (unit.recomputes_)
    traces_.push_back({unit.buffers_.learn(std::move(buffers)), seed.end_state()});
  return results;
}

// The same tensors where they were the same.
std::vector<at::Tensor> UnitCall::without_graphs(const std::vector<at::Tensor>& results) {
  std::vector<at::Tensor> detached;
  for (const at::Tensor& result : results) {
    const auto same =
        std::find_if(results.begin(), results.end(),
                     [&](const at::Tensor& other) { return other.is_same(result); }) -
        results.begin();
    detached.push_back(same < static_cast<std::ptrdiff_t>(detached.size())
                           ? detached[same]
                           : result.detach());
  }
  return detached;
}

// Only a graph tells which results need a gradient; with several chunks, if any says so.
void UnitCall::note_outputs(const InnerGraph& graph) {
  is_differentiable_.resize(graph.num_results(), false);
  for (size_t i = 0; i < graph.num_results(); ++i) {
    if (graph.outputs()[i].requires_grad()) is_differentiable_[i] = true;
  }
  changed_inputs_ = graph.changed();
  for (size_t k = 0; k < changed_inputs_.size(); ++k) {
    const size_t input = changed_inputs_[k];
    if (was_cast_[input]) {
      throw Error(ExitCode::kUsage,
                  "the unit changes its input tensor " + std::to_string(input) +
                      " in place, but was given a copy in another type",
                  unit_->fqn_, "pass it in the type that the unit computes in");
    }
    if (inputs_[input].is_leaf() && inputs_[input].requires_grad()) {
      throw Error(ExitCode::kUsage,
                  "the unit changes its input tensor " + std::to_string(input) +
                      " in place, which is a leaf that requires grad",
                  unit_->fqn_, "pass a clone of it");
    }
    for (size_t other = 0; other < inputs_.size(); ++other) {
      if (other == input || !inputs_[other].is_same(inputs_[input])) continue;
      throw Error(ExitCode::kUsage,
                  "the unit was given one tensor twice, as " + std::to_string(other) +
                      " and " + std::to_string(input) + ", and changes it in place",
                  unit_->fqn_, "pass a clone of it");
    }
    const at::Tensor& changed = graph.outputs()[graph.num_results() + k];
    outputs_.push_back({changed.detach().clone(), static_cast<int>(input), true,
                        changed.requires_grad()});
    changed_tensors_.push_back(changed);
  }
}

void UnitCall::make_outputs(const std::vector<std::vector<at::Tensor>>& chunks) {
  for (const auto& results : chunks) {
    if (results.size() == chunks.front().size()) continue;
    throw Error(ExitCode::kUsage, "micro-batches of one call return different tensors",
                unit_->fqn_, "return the same structure each time");
  }
  const int64_t rows = chunking_.count > 1 ? unit_->chunk_rows_ : 0;
  // A tensor that is returned twice is one output.
  std::vector<at::Tensor> seen = std::move(changed_tensors_);
  for (size_t i = 0; i < chunks.front().size(); ++i) {
    std::vector<at::Tensor> parts;
    for (const auto& results : chunks) parts.push_back(results[i].detach());
    const at::Tensor& result = chunks.front()[i];
    const auto same =
        std::find_if(seen.begin(), seen.end(),
                     [&](const at::Tensor& other) { return other.is_same(result); });
    place_of_result_.push_back(same - seen.begin());
    if (same != seen.end()) continue;
    const auto base =
        std::find_if(seen.begin(), seen.end(), [&](const at::Tensor& other) {
          return chunks.size() == 1 && is_view_of(result, other);
        });
    const int view_of = base == seen.end() ? -1 : static_cast<int>(base - seen.begin());
    seen.push_back(result);
    outputs_.push_back(output_from(join_outputs(parts, joins_[i], rows, unit_->fqn_)));
    Output& output = outputs_.back();
    const bool shows_other =
        view_of >= 0 && outputs_[view_of].is_differentiable &&
        output.tensor.storage().is_alias_of(outputs_[view_of].tensor.storage());
    output.view_of = shows_other ? view_of : -1;
    output.is_differentiable =
        is_differentiable_[i] &&
        torch::autograd::isDifferentiableType(result.scalar_type());
    if (output.is_differentiable) unit_->require_on_device(output.tensor);
  }
}

// Weights go away: what lies in them is copied.
UnitCall::Output UnitCall::output_from(const at::Tensor& result) const {
  if (is_flat(result)) return {result.clone()};
  for (size_t i = 0; i < inputs_.size() && result.has_storage(); ++i) {
    if (inputs_[i].has_storage() && result.storage().is_alias_of(inputs_[i].storage()) &&
        result.scalar_type() == inputs_[i].scalar_type())
      return {result, static_cast<int>(i)};
  }
  return {result};
}

std::vector<at::Tensor> UnitCall::join_to_graph() {
  std::vector<at::Tensor> outputs;
  if (std::any_of(outputs_.begin(), outputs_.end(),
                  [](const Output& output) { return output.is_differentiable; })) {
    std::vector<at::Tensor> inputs = inputs_;
    inputs.push_back(at::empty({0}).requires_grad_());
    if (unit_->recomputes_) kept_inputs_.offload(weights_version_);
    outputs = UnitNode::apply(
        at::TensorList(inputs),
        c10::intrusive_ptr<UnitCall>::unsafe_reclaim_from_nonowning(this));
  } else {
    for (const Output& output : outputs_) outputs.push_back(output.tensor);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].is_changed_input) continue;
    at::Tensor& changed = inputs_[outputs_[i].input];
    if (outputs_[i].is_differentiable) give_history(changed, outputs[i]);
    outputs[i] = changed;
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].view_of < 0 || !outputs_[i].is_differentiable) continue;
    const at::Tensor& view = outputs_[i].tensor;
    outputs[i] = outputs[outputs_[i].view_of].as_strided(view.sizes(), view.strides(),
                                                         view.storage_offset());
  }
  inputs_.clear();
  for (Output& output : outputs_) output.tensor.reset();  // it knows its graph, and us
  std::vector<at::Tensor> results;
  for (const size_t place : place_of_result_) results.push_back(outputs[place]);
  return results;
}

void UnitCall::require_backward() const {
  const AttachedUnit& unit = *unit_;
  unit.check_attached();
  const auto refuse = [&](const std::string& what, const std::string& cure) {
    throw Error(ExitCode::kUsage, what, unit.fqn_, cure);
  };
  if (is_released_)
    refuse("a second backward through the same call of a unit", "call forward again");
  if (weights_version_ != unit.phase_.weights_version) {
    refuse("the weights changed between this forward and its backward",
           "call backward before step(), set_full_parameter() or a load");
  }
  if (const auto changed = kept_inputs_.first_changed()) {
    refuse("input tensor " + std::to_string(*changed) +
               " of a unit was changed in place between its forward and its backward, "
               "which recomputes from it",
           "change a clone of it, or keep the graph (Options::recompute, --recompute "
           "none)");
  }
}

std::vector<at::Tensor> UnitCall::backward(const std::vector<at::Tensor>& output_grads,
                                           bool keeps_graph) {
  require_backward();
  AttachedUnit& unit = *unit_;
  const Activity::Stretch stretch(unit.fqn_, "backward");
  const StreamClock::Span drawn = unit.weights_.drawn("backward", unit.fqn_);
  if (torch::GradMode::is_enabled()) {
    throw Error(ExitCode::kUsage, "create_graph through a unit", unit.fqn_,
                "a unit has first derivatives only: compute what needs second ones "
                "outside of units, or without an engine");
  }
  const bool is_ours = unit.phase_.now == Phase::Now::kBackward;
  std::vector<std::vector<at::Tensor>> grads(wants_grad_.size());  // (inputs, chunks)
  {
    const WeightStreamer::Unsharded unsharded(unit.weights_, unit.index_,
                                              Direction::kBackward);
    const std::vector<at::Tensor> inputs = kept_inputs_.fetch();
    for (int64_t c = 0; c < chunking_.count; ++c) {
      std::optional<UnitBuffers::Rewind> rewind;
      if (unit.recomputes_) rewind.emplace(unit.buffers_, traces_[c].buffers, unit.fqn_);
      std::unique_ptr<InnerGraph> recomputed =
          unit.recomputes_ ? recompute(inputs, c) : nullptr;
      InnerGraph& graph = recomputed ? *recomputed : *graphs_[c];
      const auto grads_in = grads_of_chunk(output_grads, graph, c);
      const auto grads_out = is_ours ? graph.backward(grads_in, keeps_graph)
                                     : graph.input_grads(grads_in, keeps_graph);
      for (size_t i = 0; i < grads.size(); ++i) grads[i].push_back(grads_out[i]);
      if (is_ours) unit.pass_.collect(unit.index_);
    }
  }
  if (is_ours) {
    // Inner calls whose results had no gradient get no backward of their own.
    for (UnitCall* inner : walk_graph(kept_outputs()).calls) {
      if (inner->belongs_to(unit.phase_)) unit.pass_.drop_call(inner->unit(), inner);
    }
    unit.pass_.backward_done(unit.index_, this);
  }
  std::vector<at::Tensor> input_grads;
  for (size_t i = 0; i < grads.size(); ++i) {
    input_grads.push_back(chunking_.count == 1
                              ? grads[i].front()
                              : join_grads(grads[i], chunking_.is_split[i]));
  }
  keeps_graph ? kept_inputs_.put_away() : release();
  return input_grads;
}

// The body again, from what its forward saw: inputs, random numbers, buffers, modes.
std::unique_ptr<InnerGraph> UnitCall::recompute(const std::vector<at::Tensor>& all_inputs,
                                                int64_t chunk) const {
  AttachedUnit& unit = *unit_;
  const zero::Trace::Span span("recompute", unit.fqn_);
  const StreamClock::Span drawn = unit.weights_.drawn("recompute", unit.fqn_);
  const AutocastScope autocast(autocast_);
  const ModuleModes::Scope modes(unit.modes_, modes_);
  const CallSeed seed(seed_of(chunk), draws_, unit.device_);
  std::vector<at::Tensor> inputs = chunk_of(all_inputs, chunking_, chunk);
  if (!changed_inputs_.empty()) {
    for (at::Tensor& input : inputs) input = input.clone();
  }
  const Scoped recomputing(unit.num_recomputing_, unit.num_recomputing_ + 1);
  auto graph = std::make_unique<InnerGraph>(body_, inputs, wants_grad_);
  if (seed.end_state() != traces_[chunk].generator_state) {
    throw Error(ExitCode::kUsage,
                "recomputing drew other random numbers than the forward: another thread "
                "draws from torch's default generator",
                unit.fqn_,
                "give your own threads a generator of their own "
                "(at::make_generator<at::CPUGeneratorImpl>(seed))");
  }
  if (graph->num_results() != place_of_result_.size() ||
      graph->changed() != changed_inputs_) {
    throw Error(ExitCode::kUsage,
                "recomputing returned or changed other tensors than the forward",
                unit.fqn_,
                "let forward depend on its arguments, parameters and registered buffers "
                "alone, or keep the graph (Options::recompute, --recompute none)");
  }
  return graph;
}

// From gradients of the node's outputs to gradients of the graph's.
std::vector<at::Tensor> UnitCall::grads_of_chunk(
    const std::vector<at::Tensor>& output_grads, const InnerGraph& graph,
    int64_t chunk) const {
  std::vector<at::Tensor> grads(graph.outputs().size());
  std::vector<bool> is_used(outputs_.size(), false);
  for (size_t i = 0; i < place_of_result_.size(); ++i) {
    const size_t place = place_of_result_[i];
    if (is_used[place]) continue;
    is_used[place] = true;
    grads[i] = grad_of_chunk(output_grads[place], joins_[i], chunk, chunking_.count);
    if (grads[i].defined() && grads[i].sizes() != graph.outputs()[i].sizes()) {
      throw Error(ExitCode::kUsage,
                  "recomputing gave a result of shape " +
                      c10::str(graph.outputs()[i].sizes()) + ", the forward one of " +
                      c10::str(grads[i].sizes()),
                  unit_->fqn_,
                  "let forward depend on its arguments, parameters and registered "
                  "buffers alone");
    }
  }
  for (size_t k = 0; k < changed_inputs_.size(); ++k) {
    if (!is_used[k]) grads[graph.num_results() + k] = output_grads[k];
  }
  return grads;
}

void UnitCall::release() {
  is_released_ = true;
  graphs_.clear();
  kept_inputs_.clear();
  traces_.clear();
}

int UnitCall::unit() const { return unit_->index_; }

bool UnitCall::belongs_to(const Phase& phase) const {
  return unit_->is_attached_ && &unit_->phase_ == &phase;
}

// Random numbers of a chunk: those of the call, or drawn from a key of its own.
uint64_t UnitCall::seed_of(int64_t chunk) const {
  return chunking_.count == 1 ? seed_ : hash_key(seed_, static_cast<uint64_t>(chunk));
}

std::vector<at::Tensor> UnitCall::kept_outputs() const {
  std::vector<at::Tensor> outputs;
  for (const auto& graph : graphs_)
    outputs.insert(outputs.end(), graph->outputs().begin(), graph->outputs().end());
  return outputs;
}

GraphWalk walk_graph(const std::vector<at::Tensor>& roots) {
  GraphWalk walk;
  std::vector<torch::autograd::Node*> open;
  const auto visit = [&](torch::autograd::Node* node) {
    if (node && walk.nodes.insert(node).second) open.push_back(node);
  };
  const auto enter = [&](const at::Tensor& tensor) {
    visit(torch::autograd::impl::gradient_edge(tensor).function.get());
  };
  for (const at::Tensor& root : roots) {
    if (root.requires_grad()) enter(root);
  }
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    for (const auto& edge : node->next_edges()) visit(edge.function.get());
    if (auto* unit = dynamic_cast<torch::autograd::CppNode<UnitNode>*>(node)) {
      UnitCall& call = UnitNode::call_of(&unit->ctx_);
      walk.calls.push_back(&call);
      for (const at::Tensor& output : call.kept_outputs()) {
        if (output.requires_grad()) enter(output);
      }
    }
  }
  return walk;
}

}  // namespace zero
