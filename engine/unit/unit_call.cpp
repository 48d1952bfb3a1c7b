#include "engine/unit/unit_call.h"

#include <algorithm>
#include <atomic>

#include "engine/unit/attached_unit.h"
#include "engine/unit/discarded_graph.h"
#include "engine/unit/exchange_tape.h"
#include "engine/watch/activity.h"
#include "engine/watch/trace.h"
#include "offload/random.h"
#include "zero/errors.h"

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
    for (const UnitOutputs::Output& output : call->outputs_.list()) {
      if (!output.is_differentiable) constants.push_back(output.tensor);
      const bool is_view = output.input >= 0 && !output.is_changed_input;
      results.push_back(is_view && output.is_differentiable
                            // Of the input, so that autograd knows what they share.
                            ? output.shown_of(inputs[output.input])
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

static uint64_t next_number() {
  static std::atomic<uint64_t> number = 0;
  return number++;
}

UnitCall::UnitCall(std::shared_ptr<AttachedUnit> unit, UnitBody body,
                   std::vector<UnitInput> inputs)
    : unit_(std::move(unit)),
      number_(next_number()),
      body_(std::move(body)),
      weights_version_(unit_->phase_.weights_version),
      modes_(unit_->modes_.current()),
      may_change_inputs_(!unit_->recomputes_ || unit_->may_change_inputs(modes_)),
      chunking_(chunking_of(inputs, unit_->chunk_rows_, unit_->fqn_)),
      outputs_(unit_->fqn_),
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
    outputs_.make(chunks, chunking_.count > 1 ? unit.chunk_rows_ : 0, inputs_);
    for (const UnitOutputs::Output& output : outputs_.list()) {
      if (output.is_differentiable && !output.is_changed_input)
        unit.require_on_device(output.tensor);
    }
  }
  unit.learn(modes_, outputs_.changes_inputs());
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
  const Scoped discarded(is_graph_discarded, unit.recomputes_);
  std::vector<at::Tensor> exchanged;
  const ExchangeTape tape(unit.recomputes_ ? &exchanged : nullptr, unit.fqn_);
  auto graph = std::make_unique<InnerGraph>(unit.fqn_, body_, inputs, wants_grad_);
  std::vector<at::Tensor> results(
      graph->outputs().begin(),
      graph->outputs().begin() + static_cast<std::ptrdiff_t>(graph->num_results()));
  const GraphWalk walk = walk_graph(graph->outputs());
  require_own_calls(walk.calls);
  const auto others = unit.borders_.other_leaves(walk.ends, unit.index_, graph.get());
  other_leaves_.insert(other_leaves_.end(), others.begin(), others.end());
  outputs_.learn(*graph, marks, inputs_, was_cast_);
  if (!unit.recomputes_) graphs_.push_back(std::move(graph));
  if (outputs_.changes_inputs() && (chunking_.count > 1 || !may_change_inputs_))
    unit.refuse_changed_input(chunking_.count > 1);
  if (chunking_.count > 1) unit.require_same_buffers(buffers);
  if (unit.recomputes_ && chunking_.count > 1) results = without_graphs(results);
  if (unit.recomputes_)
    traces_.push_back({unit.buffers_.learn(std::move(buffers)), seed.end_state(),
                       std::move(exchanged)});
  return results;
}

// Calls of other units in its graph are those that its body made: a backward would not
// find an older one, which the body reaches through a member or what it captured.
void UnitCall::require_own_calls(const std::vector<UnitCall*>& calls) const {
  for (const UnitCall* call : calls) {
    if (call->number_ < number_)
      reject("a result of unit \"" + call->unit_->fqn_ +
                 "\" is used by this unit, which was not given it",
             unit_->fqn_,
             "give it to the unit's forward as an argument, so that its gradient finds "
             "the way back, or detach() it");
  }
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

std::vector<at::Tensor> UnitCall::join_to_graph() {
  std::vector<at::Tensor> of_node;
  if (outputs_.has_differentiable()) {
    std::vector<at::Tensor> inputs = inputs_;
    inputs.push_back(at::empty({0}).requires_grad_());
    if (unit_->recomputes_) kept_inputs_.offload(weights_version_);
    of_node = UnitNode::apply(
        at::TensorList(inputs),
        c10::intrusive_ptr<UnitCall>::unsafe_reclaim_from_nonowning(this));
  } else {
    for (const UnitOutputs::Output& output : outputs_.list())
      of_node.push_back(output.tensor);
  }
  std::vector<at::Tensor> inputs = std::move(inputs_);
  return outputs_.results(std::move(of_node), inputs);
}

void UnitCall::require_backward() const {
  const AttachedUnit& unit = *unit_;
  unit.check_attached();
  if (is_released_)
    reject("a second backward through the same call of a unit", unit.fqn_,
           "call forward again");
  if (weights_version_ != unit.phase_.weights_version)
    reject("the weights changed between this forward and its backward", unit.fqn_,
           "call backward before step(), set_full_parameter() or a load");
  if (const auto changed = kept_inputs_.first_changed())
    reject("input tensor " + std::to_string(*changed) +
               " of a unit was changed in place between its forward and its backward, "
               "which recomputes from it",
           unit.fqn_,
           "change a clone of it, or keep the graph (Options::recompute, --recompute "
           "none)");
}

std::vector<at::Tensor> UnitCall::backward(const std::vector<at::Tensor>& output_grads,
                                           bool keeps_graph) {
  require_backward();
  AttachedUnit& unit = *unit_;
  const Activity::Stretch stretch(unit.fqn_, "backward");
  const StreamClock::Span drawn = unit.weights_.drawn("backward", unit.fqn_);
  if (torch::GradMode::is_enabled())
    reject("create_graph through a unit", unit.fqn_,
           "a unit has first derivatives only: compute what needs second ones "
           "outside of units, or without an engine");
  const bool is_ours =
      unit.phase_.now == Phase::Now::kBackward && unit.pass_.has(unit.index_, this);
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
      const auto grads_in =
          outputs_.grads_of_chunk(output_grads, graph, c, chunking_.count);
      const auto grads_out = is_ours ? backward_of(graph, grads_in, keeps_graph)
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

std::vector<at::Tensor> UnitCall::backward_of(InnerGraph& graph,
                                              const std::vector<at::Tensor>& grads,
                                              bool keeps_graph) {
  const BackwardPass::Inside inside(unit_->pass_);
  return graph.backward(grads, keeps_graph);
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
  if (outputs_.changes_inputs()) {
    for (at::Tensor& input : inputs) input = input.clone();
  }
  const Scoped recomputing(unit.num_recomputing_, unit.num_recomputing_ + 1);
  const ExchangeTape tape(traces_[chunk].exchanged, unit.fqn_);
  auto graph = std::make_unique<InnerGraph>(unit.fqn_, body_, inputs, wants_grad_);
  tape.require_end();
  if (seed.end_state() != traces_[chunk].generator_state)
    reject(
        "recomputing drew other random numbers than the forward: another thread "
        "draws from torch's default generator",
        unit.fqn_,
        "give your own threads a generator of their own "
        "(at::make_generator<at::CPUGeneratorImpl>(seed))");
  if (!outputs_.are_those_of(*graph))
    reject("recomputing returned or changed other tensors than the forward", unit.fqn_,
           "let forward depend on its arguments, parameters and registered buffers "
           "alone, or keep the graph (Options::recompute, --recompute none)");
  return graph;
}

void UnitCall::release() {
  is_released_ = true;
  graphs_.clear();
  other_leaves_.clear();
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
  const auto enter = [&](const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& tensor : tensors)
      if (tensor.requires_grad())
        visit(torch::autograd::impl::gradient_edge(tensor).function.get());
  };
  const auto follow = [&](GraphEnds* ends) {
    while (!open.empty()) {
      torch::autograd::Node* node = open.back();
      open.pop_back();
      if (ends) ends->add(*node);
      for (const auto& edge : node->next_edges()) visit(edge.function.get());
      if (auto* unit = dynamic_cast<torch::autograd::CppNode<UnitNode>*>(node))
        walk.calls.push_back(&UnitNode::call_of(&unit->ctx_));
    }
  };
  enter(roots);
  follow(&walk.ends);
  for (size_t i = 0; i < walk.calls.size(); ++i) {
    enter(walk.calls[i]->kept_outputs());
    follow(nullptr);
  }
  return walk;
}

}  // namespace zero
