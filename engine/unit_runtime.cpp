#include "engine/unit_runtime.h"

#include <ATen/autocast_mode.h>

#include "engine/call_seed.h"
#include "engine/device/delays.h"
#include "engine/errors.h"

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

// Autocast's cache of cast weights would keep copies of weights that are released: it is off inside units. The rest
// of autocast's state is that of the forward call, also when recomputing.
class AutocastScope {
 public:
  struct State {
    bool is_enabled = at::autocast::is_autocast_enabled(at::kCPU);
    at::ScalarType dtype = at::autocast::get_autocast_dtype(at::kCPU);
  };
  explicit AutocastScope(const State& state) : uses_cache_(at::autocast::is_autocast_cache_enabled()) {
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
std::vector<at::Tensor> as_leaves(const std::vector<at::Tensor>& inputs, const std::vector<bool>& wants_grad) {
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
  std::vector<bool> wants_grad;                 // of each input
  std::vector<at::Tensor> leaves, outputs;      // the unit's own graph, unless it is recomputed
  bool had_backward = false;

  ~UnitCall() override {
    if (!had_backward && runtime && runtime->is_attached_) runtime->pass_.call_dropped(runtime->unit_);
  }

  // Run the body on leaves of its own, with gradients.
  void run_with_graph(const std::vector<at::Tensor>& inputs) {
    at::AutoGradMode enable(true);
    leaves = as_leaves(inputs, wants_grad);
    outputs = body(leaves);
  }
};

struct UnitFunction : torch::autograd::Function<UnitFunction> {
  // `inputs`: the unit's tensors, then one dummy that requires grad, so that autograd calls backward even if no
  // input does.
  static variable_list forward(AutogradContext* context, at::TensorList inputs,
                               const c10::intrusive_ptr<UnitCall>& call) {
    const std::vector<at::Tensor> tensors(inputs.begin(), inputs.end() - 1);
    UnitRuntime& runtime = *call->runtime;
    for (const at::Tensor& tensor : tensors) call->wants_grad.push_back(tensor.requires_grad());
    context->set_materialize_grads(false);
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    runtime.pass_.forward_called(runtime.unit_);

    const UnitRuntime::Unsharded unsharded(runtime, Direction::kForward);
    const AutocastScope autocast(call->autocast);
    variable_list results;
    if (runtime.recomputes_) {
      context->save_for_backward(tensors);
      results = call->body(tensors);  // autograd functions run without gradients
    } else {
      call->run_with_graph(tensors);
      for (const at::Tensor& output : call->outputs) results.push_back(output.detach());
    }
    variable_list constants;
    for (const at::Tensor& result : results) {
      if (!torch::autograd::isDifferentiableType(result.scalar_type())) constants.push_back(result);
    }
    context->mark_non_differentiable(constants);
    return results;
  }

  static variable_list backward(AutogradContext* context, variable_list output_grads) {
    auto call = c10::static_intrusive_pointer_cast<UnitCall>(context->saved_data["call"].toCapsule());
    UnitRuntime& runtime = *call->runtime;
    runtime.check_attached();
    if (call->had_backward && !runtime.recomputes_) {
      throw Error(ExitCode::kUsage, "a second backward through the same call", runtime.fqn_,
                  "call forward again, or use --recompute unit");
    }
    {
      const UnitRuntime::Unsharded unsharded(runtime, Direction::kBackward);
      if (runtime.recomputes_) {
        const CallSeed seed(call->seed, call->draws);
        const AutocastScope autocast(call->autocast);
        call->run_with_graph(context->get_saved_variables());
      }
      run_backward(*call, output_grads);
    }
    variable_list input_grads;
    for (const at::Tensor& leaf : call->leaves) input_grads.push_back(leaf.grad());
    input_grads.emplace_back();  // of the dummy
    input_grads.emplace_back();  // of the call
    call->leaves.clear();
    call->outputs.clear();
    if (!call->had_backward) {
      call->had_backward = true;
      runtime.pass_.backward_done(runtime.unit_);
    } else {
      runtime.pass_.forward_called(runtime.unit_);
      runtime.pass_.backward_done(runtime.unit_);
    }
    return input_grads;
  }

  // Leaves .grad in the unit's leaves and in all parameters it used, its own and its ancestors'.
  static void run_backward(UnitCall& call, const variable_list& output_grads) {
    variable_list roots, grads;
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      if (!output_grads[i].defined() || !call.outputs[i].requires_grad()) continue;
      roots.push_back(call.outputs[i]);
      grads.push_back(output_grads[i]);
    }
    if (!roots.empty()) torch::autograd::backward(roots, grads);
  }
};

UnitRuntime::UnitRuntime(int unit, std::string fqn, const torch::nn::Module& module, bool is_leaf,
                         const Options& options, WeightStreamer& weights, BackwardPass& pass)
    : unit_(unit),
      fqn_(std::move(fqn)),
      module_(module),
      recomputes_(is_leaf && options.recompute == Recompute::kUnit),
      dtype_(options.dtype == DType::kFloat32 ? at::kFloat : at::kBFloat16),
      weights_(weights),
      pass_(pass) {}

std::vector<at::Tensor> UnitRuntime::run(const UnitBody& body, std::vector<at::Tensor> inputs) {
  check_attached();
  delay_point("forward");
  for (at::Tensor& input : inputs) {
    if (dtype_ != at::kFloat && input.scalar_type() == at::kFloat) input = input.to(dtype_);
  }
  const CallSeed seed(fqn_, module_.is_training());
  if (!torch::GradMode::is_enabled()) {
    const Unsharded unsharded(*this, Direction::kForward);
    const AutocastScope autocast{AutocastScope::State()};
    return body(inputs);
  }
  auto call = c10::make_intrusive<UnitCall>();
  call->runtime = shared_from_this();
  call->body = body;
  call->seed = seed.seed();
  call->draws = seed.draws();
  inputs.push_back(at::empty({0}).requires_grad_());
  return UnitFunction::apply(at::TensorList(inputs), call);
}

void UnitRuntime::check_attached() const {
  if (is_attached_) return;
  throw Error(ExitCode::kUsage, "the engine of this unit is gone", fqn_, "keep the zero::Engine as long as the model");
}

}  // namespace zero
