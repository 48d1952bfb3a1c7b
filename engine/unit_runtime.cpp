#include "engine/unit_runtime.h"

#include <ATen/autocast_mode.h>

#include "engine/call_seed.h"
#include "engine/chunks.h"
#include "engine/device/delays.h"
#include "engine/errors.h"
#include "engine/init/philox.h"

namespace zero {

namespace detail {
at::Tensor placeholder() {
  static const at::Tensor tensor = at::empty({0});
  return tensor;
}
}  // namespace detail

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Direction = WeightStreamer::Direction;

// Autocast's cache of cast weights would keep copies of weights that are released: it is
// off inside units. The rest of autocast's state is that of the forward call, also when
// recomputing.
class AutocastScope {
 public:
  struct State {
    bool is_enabled = at::autocast::is_autocast_enabled(at::kCPU);
    at::ScalarType dtype = at::autocast::get_autocast_dtype(at::kCPU);
  };
  explicit AutocastScope(const State& state)
      : uses_cache_(at::autocast::is_autocast_cache_enabled()) {
    apply(state);
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~AutocastScope() {
    apply(caller_);
    at::autocast::set_autocast_cache_enabled(uses_cache_);
  }

 private:
  static void apply(const State& state) {
    at::autocast::set_autocast_enabled(at::kCPU, state.is_enabled);
    at::autocast::set_autocast_dtype(at::kCPU, state.dtype);
  }
  const State caller_;
  const bool uses_cache_;
};

// Inputs cut off from the caller's graph, as leaves of the unit's own.
std::vector<at::Tensor> as_leaves(const std::vector<at::Tensor>& inputs,
                                  const std::vector<bool>& wants_grad) {
  std::vector<at::Tensor> leaves;
  for (size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back(inputs[i].detach().requires_grad_(wants_grad[i]));
  }
  return leaves;
}

}  // namespace

class UnitRuntime::Unsharded {
 public:
  Unsharded(UnitRuntime& runtime, Direction direction) : runtime_(runtime) {
    runtime_.weights_.unshard(runtime_.unit_, direction);
  }
  ~Unsharded() { runtime_.weights_.reshard(runtime_.unit_); }

 private:
  UnitRuntime& runtime_;
};

// What one call of a unit keeps from its forward to its backward.
struct UnitCall : torch::CustomClassHolder {
  std::shared_ptr<UnitRuntime> runtime;
  UnitBody body;
  uint64_t seed = 0;
  bool draws = false;
  AutocastScope::State autocast;
  int64_t num_chunks = 1;                  // Accumulate::kUnit: micro-batches of the call
  std::vector<bool> wants_grad, is_split;  // of each input
  struct Graph {
    std::vector<at::Tensor> leaves, outputs;
  };
  std::vector<Graph> graphs;  // of each chunk, unless it is recomputed
  bool had_backward = false;

  ~UnitCall() override {
    if (!had_backward && runtime && runtime->is_attached_)
      runtime->pass_.call_dropped(runtime->unit_);
  }

  // Run the body on leaves of its own, with gradients.
  Graph run_with_graph(const std::vector<at::Tensor>& inputs) const {
    at::AutoGradMode enable(true);
    Graph graph;
    graph.leaves = as_leaves(inputs, wants_grad);
    graph.outputs = body(graph.leaves);
    return graph;
  }

  // Random numbers of a chunk: those of the call, or drawn from a key of its own.
  uint64_t seed_of(int64_t chunk) const {
    return num_chunks == 1 ? seed : hash_key(seed, static_cast<uint64_t>(chunk));
  }
};

struct UnitFunction : torch::autograd::Function<UnitFunction> {
  // `inputs`: the unit's tensors, then one dummy that requires grad, so that autograd
  // calls backward even if no input does.
  static variable_list forward(AutogradContext* context, at::TensorList inputs,
                               const c10::intrusive_ptr<UnitCall>& call) {
    const std::vector<at::Tensor> tensors(inputs.begin(), inputs.end() - 1);
    UnitRuntime& runtime = *call->runtime;
    for (const at::Tensor& tensor : tensors) {
      call->wants_grad.push_back(tensor.requires_grad());
      call->is_split.push_back(is_batched(tensor, tensors));
    }
    context->set_materialize_grads(false);
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    runtime.pass_.forward_called(runtime.unit_);

    const UnitRuntime::Unsharded unsharded(runtime, Direction::kForward);
    const AutocastScope autocast(call->autocast);
    if (runtime.recomputes_) context->save_for_backward(tensors);
    std::vector<std::vector<at::Tensor>> chunks;
    for (int64_t c = 0; c < call->num_chunks; ++c) {
      const CallSeed seed(call->seed_of(c), call->draws);
      const std::vector<at::Tensor> inputs_of_chunk =
          chunk_of(tensors, c, call->num_chunks);
      if (runtime.recomputes_) {
        // Autograd functions run without gradients.
        chunks.push_back(call->body(inputs_of_chunk));
        continue;
      }
      call->graphs.push_back(call->run_with_graph(inputs_of_chunk));
      chunks.emplace_back();
      for (const at::Tensor& output : call->graphs.back().outputs)
        chunks.back().push_back(output.detach());
    }
    variable_list results = join_outputs(chunks);
    variable_list constants;
    for (const at::Tensor& result : results) {
      if (!torch::autograd::isDifferentiableType(result.scalar_type()))
        constants.push_back(result);
    }
    context->mark_non_differentiable(constants);
    return results;
  }

  static variable_list backward(AutogradContext* context, variable_list output_grads) {
    auto call = c10::static_intrusive_pointer_cast<UnitCall>(
        context->saved_data["call"].toCapsule());
    UnitRuntime& runtime = *call->runtime;
    runtime.check_attached();
    if (call->had_backward && !runtime.recomputes_) {
      throw Error(ExitCode::kUsage, "a second backward through the same call",
                  runtime.fqn_, "call forward again, or use --recompute unit");
    }
    variable_list input_grads;
    {
      const UnitRuntime::Unsharded unsharded(runtime, Direction::kBackward);
      const variable_list saved =
          runtime.recomputes_ ? context->get_saved_variables() : variable_list();
      // Of each input, from each chunk.
      std::vector<std::vector<at::Tensor>> grads(call->wants_grad.size());
      for (int64_t c = 0; c < call->num_chunks; ++c) {
        UnitCall::Graph graph =
            runtime.recomputes_ ? recompute(*call, saved, c) : std::move(call->graphs[c]);
        run_backward(graph, output_grads, c, call->num_chunks);
        for (size_t i = 0; i < grads.size(); ++i)
          grads[i].push_back(graph.leaves[i].grad());
        if (c + 1 < call->num_chunks) runtime.pass_.chunk_done(runtime.unit_);
      }
      for (size_t i = 0; i < grads.size(); ++i)
        input_grads.push_back(join_grads(*call, grads[i], i));
    }
    call->graphs.clear();
    input_grads.emplace_back();  // of the dummy
    input_grads.emplace_back();  // of the call
    if (call->had_backward) runtime.pass_.forward_called(runtime.unit_);
    call->had_backward = true;
    runtime.pass_.backward_done(runtime.unit_);
    return input_grads;
  }

  static UnitCall::Graph recompute(const UnitCall& call, const variable_list& saved,
                                   int64_t c) {
    const CallSeed seed(call.seed_of(c), call.draws);
    const AutocastScope autocast(call.autocast);
    return call.run_with_graph(chunk_of(saved, c, call.num_chunks));
  }

  // Leaves .grad in the unit's leaves and in all parameters it used, its own and its
  // ancestors'.
  static void run_backward(const UnitCall::Graph& graph,
                           const variable_list& output_grads, int64_t c, int64_t count) {
    variable_list roots, grads;
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      if (!output_grads[i].defined() || !graph.outputs[i].requires_grad()) continue;
      roots.push_back(graph.outputs[i]);
      grads.push_back(grad_of_chunk(output_grads[i], c, count));
    }
    if (!roots.empty()) torch::autograd::backward(roots, grads);
  }

  // Rows one after the other for inputs that were split, a sum for those that were
  // shared.
  static at::Tensor join_grads(const UnitCall& call, const std::vector<at::Tensor>& grads,
                               size_t input) {
    for (const at::Tensor& grad : grads) {
      if (!grad.defined()) return {};
    }
    if (call.num_chunks == 1) return grads.front();
    if (call.is_split[input]) return at::cat(grads);
    at::Tensor sum = grads.front();
    for (size_t i = 1; i < grads.size(); ++i) sum = sum + grads[i];
    return sum;
  }
};

UnitRuntime::UnitRuntime(int unit, std::string fqn, const torch::nn::Module& module,
                         bool is_leaf, const Options& options, WeightStreamer& weights,
                         BackwardPass& pass)
    : unit_(unit),
      fqn_(std::move(fqn)),
      module_(module),
      recomputes_(is_leaf && options.recompute == Recompute::kUnit),
      dtype_(options.dtype == DType::kFloat32 ? at::kFloat : at::kBFloat16),
      chunk_rows_(is_leaf && options.accumulate == Accumulate::kUnit ? options.micro_batch
                                                                     : 0),
      weights_(weights),
      pass_(pass) {}

std::vector<at::Tensor> UnitRuntime::run(const UnitBody& body,
                                         std::vector<at::Tensor> inputs) {
  check_attached();
  delay_point("forward");
  for (at::Tensor& input : inputs) {
    if (dtype_ != at::kFloat && input.scalar_type() == at::kFloat)
      input = input.to(dtype_);
  }
  const CallSeed seed(fqn_, module_.is_training());
  if (!torch::GradMode::is_enabled()) {
    const Unsharded unsharded(*this, Direction::kForward);
    const AutocastScope autocast{AutocastScope::State()};
    std::vector<std::vector<at::Tensor>> chunks;
    const int64_t count = num_chunks(inputs);
    for (int64_t c = 0; c < count; ++c)
      chunks.push_back(body(chunk_of(inputs, c, count)));
    return join_outputs(chunks);
  }
  auto call = c10::make_intrusive<UnitCall>();
  call->runtime = shared_from_this();
  call->body = body;
  call->seed = seed.seed();
  call->draws = seed.draws();
  call->num_chunks = num_chunks(inputs);
  inputs.push_back(at::empty({0}).requires_grad_());
  return UnitFunction::apply(at::TensorList(inputs), call);
}

int64_t UnitRuntime::num_chunks(const std::vector<at::Tensor>& inputs) const {
  if (chunk_rows_ == 0 || inputs.empty() || inputs.front().dim() == 0) return 1;
  const int64_t rows = inputs.front().size(0);
  if (rows % chunk_rows_ == 0) return std::max<int64_t>(1, rows / chunk_rows_);
  throw Error(ExitCode::kUsage,
              "a batch of " + std::to_string(rows) +
                  " rows does not divide into micro-batches of " +
                  std::to_string(chunk_rows_),
              fqn_, "pass a multiple of the micro-batch, or --accumulate model");
}

void UnitRuntime::check_attached() const {
  if (is_attached_) return;
  throw Error(ExitCode::kUsage, "the engine of this unit is gone", fqn_,
              "keep the zero::Engine as long as the model");
}

}  // namespace zero
