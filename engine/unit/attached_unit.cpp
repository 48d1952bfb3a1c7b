#include "engine/unit/attached_unit.h"

#include "engine/device/host_device.h"
#include "engine/device/torch/compute_type.h"
#include "engine/unit/chunks.h"
#include "engine/unit/unit_call.h"
#include "engine/unit/unit_outputs.h"
#include "engine/watch/trace.h"
#include "engine/weights/torch/flat_params.h"

namespace zero {
namespace {

// How often each was written to; what is of inference mode does not know.
std::vector<int64_t> writes_to(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> writes;
  for (const at::Tensor& tensor : tensors)
    writes.push_back(tensor.defined() && !tensor.is_inference() ? tensor._version() : 0);
  return writes;
}

// Whoever called the unit would not see it. writes: before the body.
void require_unwritten_copies(const std::vector<UnitInput>& inputs,
                              const std::vector<at::Tensor>& cast,
                              const std::vector<int64_t>& writes,
                              const std::string& fqn) {
  const std::vector<int64_t> now = writes_to(cast);
  for (size_t i = 0; i < cast.size(); ++i)
    if (now[i] != writes[i] && !cast[i].is_same(inputs[i].tensor))
      refuse_written_copy(i, fqn);
}

}  // namespace

AttachedUnit::AttachedUnit(int index, const PlannedUnit& planned,
                           const std::vector<torch::nn::Module*>& modules, UnitRole role,
                           c10::Device device, const Options& options, const Phase& phase,
                           const UnitBorders& borders, WeightStreamer& weights,
                           BackwardPass& pass,
                           std::shared_ptr<ActivationStore> activations)
    : index_(index),
      fqn_(planned.fqn),
      recomputes_(role.recomputes),
      dtype_(planned.dtype),
      outer_dtype_(planned.outer_dtype),
      device_(device),
      chunk_rows_(role.is_leaf && options.accumulate == Accumulate::kUnit
                      ? options.micro_batch
                      : 0),
      chunks_change_buffers_(options.micro_batches_change_buffers),
      phase_(phase),
      borders_(borders),
      weights_(weights),
      pass_(pass),
      activations_(std::move(activations)),
      modes_(modules),
      buffers_(modules) {}

std::vector<at::Tensor> AttachedUnit::run(const UnitBody& body,
                                          std::vector<UnitInput> inputs) {
  check_attached();
  delay_point("forward");
  if (!torch::GradMode::is_enabled()) return cast_back(run_inference(body, inputs));
  // In backward its gradient might come too late, but for one that calls itself.
  if (phase_.now != Phase::Now::kForward && num_recomputing_ == 0)
    reject("a unit was called with gradients outside of forward", fqn_,
           "engine.forward(model, ...) instead of model->forward(...), or "
           "torch::NoGradGuard");
  return cast_back(
      c10::make_intrusive<UnitCall>(shared_from_this(), body, std::move(inputs))
          ->forward());
}

std::vector<at::Tensor> AttachedUnit::run_inference(
    const UnitBody& body, const std::vector<UnitInput>& inputs) {
  const Trace::Span span("forward", fqn_);
  const StreamClock::Span drawn = weights_.drawn("forward", fqn_);
  const CallSeed seed(fqn_);
  const WeightStreamer::Unsharded unsharded(weights_, index_,
                                            WeightStreamer::Direction::kForward);
  const AutocastScope autocast{AutocastScope::State()};
  const Chunking chunking = chunking_of(inputs, chunk_rows_, fqn_);
  std::vector<at::Tensor> tensors;
  for (const UnitInput& input : inputs) tensors.push_back(cast(input.tensor));
  const std::vector<int64_t> writes = writes_to(tensors);

  const WeightWatch weights = watch_weights();
  std::vector<std::vector<at::Tensor>> parts;  // (results, chunks)
  std::vector<Join> joins;
  for (int64_t c = 0; c < chunking.count; ++c) {
    const JoinMarks marks;
    const std::vector<at::Tensor> results = body(chunk_of(tensors, chunking, c));
    parts.resize(results.size());
    joins.resize(results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      parts[i].push_back(is_flat(results[i]) ? results[i].clone() : results[i]);
      joins[i] = marks.of(results[i]);
    }
  }
  require_same_weights(weights);
  require_unwritten_copies(inputs, tensors, writes, fqn_);
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < parts.size(); ++i)
    results.push_back(join_outputs(parts[i], joins[i], chunk_rows_, fqn_));
  return results;
}

void AttachedUnit::refuse_changed_input(bool in_chunks) const {
  reject(in_chunks ? "a unit that works in micro-batches changes an input in place"
                   : "a unit changes an input in place, which it did not in its "
                     "first call",
         fqn_, "change a clone of it in forward");
}

at::Tensor AttachedUnit::cast(const at::Tensor& input) const {
  const bool is_of_outer = dtype_ != outer_dtype_ && input.defined() &&
                           input.scalar_type() == scalar_type(outer_dtype_);
  return is_of_outer ? input.to(scalar_type(dtype_)) : in_compute_type(input, dtype_);
}

// To the type around this unit.
std::vector<at::Tensor> AttachedUnit::cast_back(std::vector<at::Tensor> results) const {
  if (dtype_ == outer_dtype_) return results;
  for (at::Tensor& result : results) {
    if (result.defined() && result.scalar_type() == scalar_type(dtype_))
      result = result.to(scalar_type(outer_dtype_));
  }
  return results;
}

// Values are compared once, after that autograd's versions: writing through .data moves
// none.
WeightWatch AttachedUnit::watch_weights() {
  const bool compares_values = !has_compared_weights_;
  has_compared_weights_ = true;
  return weights_.watch(index_, compares_values,
                        /*may_restore=*/recomputes_ || !weights_.may_change(index_));
}

void AttachedUnit::require_same_weights(const WeightWatch& watch) {
  const std::string fqn = weights_.first_changed(index_, watch);
  if (fqn.empty() || (weights_.may_change(index_) && !recomputes_)) return;
  weights_.refuse_change(index_, watch, fqn,
                         "; one rank in fp32 may with --recompute none");
}

void AttachedUnit::require_same_buffers(const UnitBuffers::Watch& watch) {
  const std::string name = chunks_change_buffers_ ? "" : buffers_.first_changed(watch);
  if (name.empty()) return;
  buffers_.restore(watch.values);
  reject("a unit that works in micro-batches changes its buffer " + name, fqn_,
         "batch norm sees each micro-batch alone: if that is meant, "
         "Options::micro_batches_change_buffers; else accumulate model");
}

// Autograd runs a backward on a thread of the device that the results are on: elsewhere
// it would run beside the others'.
void AttachedUnit::require_on_device(const at::Tensor& result) const {
  if (result.device() == device_) return;
  reject("a unit returns a tensor on " + result.device().str() +
             " that needs a gradient, and computes on " + device_.str(),
         fqn_, "return it as it was computed, and move it outside of the unit");
}

bool AttachedUnit::may_change_inputs(const std::vector<bool>& modes) const {
  const auto learned = changes_inputs_.find(modes);
  return learned == changes_inputs_.end() || learned->second;
}

void AttachedUnit::learn(const std::vector<bool>& modes, bool changed_inputs) {
  changes_inputs_[modes] |= changed_inputs;
}

void AttachedUnit::check_attached() const {
  if (is_attached_) return;
  reject("the engine of this unit is gone", fqn_,
         "keep the zero::Engine as long as the model");
}

std::vector<at::Tensor> MergedUnit::run(const UnitBody& body,
                                        std::vector<UnitInput> inputs) {
  const CallSeed seed(fqn_);
  std::vector<at::Tensor> tensors;
  for (const UnitInput& input : inputs)
    tensors.push_back(in_compute_type(input.tensor, dtype_));
  const std::vector<int64_t> writes = writes_to(tensors);
  std::vector<at::Tensor> results = body(tensors);
  require_unwritten_copies(inputs, tensors, writes, fqn_);
  return results;
}

}  // namespace zero
