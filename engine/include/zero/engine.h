#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/no_copy.h"
#include "offload/stored_values.h"
#include "zero/mesh.h"
#include "zero/options.h"
#include "zero/ranks.h"
#include "zero/reports.h"

namespace at {
class Tensor;
}
namespace c10 {
struct Device;
}
namespace torch::nn {
class Module;
}

namespace zero {

class Saves;

namespace detail {
template <class T>
struct TensorsOf;  // zero/visit_tensors.h
}

// One array that the optimizer keeps beside a parameter.
struct StateView {
  std::string name;  // see states_of() in offload/optimizer.h: "exp_avg"
  StoredValues values;
};

// One parameter as a checkpoint or a dump sees it: this rank's slice of masters and of
// the optimizer's state.
struct ShardView {
  std::string fqn;
  std::vector<int64_t> shape;
  int64_t begin = 0;             // of the slice in the flattened parameter
  StoredValues master;           // (numel of the slice)
  std::vector<StateView> state;  // same lengths; none when frozen or for inference
  bool frozen = false;
  std::vector<std::string> aliases;  // other FQNs of the same (tied) parameter
};

// What is whole on every rank: a buffer of the module (a running mean, a rotary table),
// or a parameter that Options::ignored leaves so.
struct BufferView {
  std::string fqn;
  std::vector<int64_t> shape;
  DType dtype;
  bool is_parameter = false;              // an ignored one
  bool is_converted = false;              // stored in another type than its own
  std::vector<std::string> aliases = {};  // its other FQNs
};

// Every byte that an Engine allocates on each of `world_size` ranks, told without
// allocating any; the model may be deferred. `ranks_of_host` are on one host; 0: all are.
// Throws Error(kUsage) as the Engine would.
std::vector<MemoryEntry> plan(torch::nn::Module& model, const Options& options,
                              int world_size, int ranks_of_host = 0);

// What each of that many ranks moves in a step of Options::micro_batches_per_rank
// backward() calls, in the same way. Exact for a model whose units hold no other units
// and are each called once in a forward; an engine's first step looks at weights on a GPU
// besides.
Traffic plan_traffic(torch::nn::Module& model, const Options& options, int world_size,
                     int ranks_of_host = 0);

// Of each of Options::groups, and of what is in none, in the same way.
std::vector<GroupShare> plan_groups(torch::nn::Module& model, const Options& options);

// Train a module whose state is sharded over ranks.
//
//   Engine engine(model, options);                  // every rank keeps 1/N of masters and moments
//   auto loss = engine.forward(model, tokens, targets);
//   engine.backward(loss, num_targets);             // once per micro-batch
//   engine.step();                                  // reduce, clip, update
//
// The parts of the model held in zero::Unit are gathered, run and released one at a time;
// what is outside every unit (the root unit) stays gathered from forward to the end of
// backward.
//
// A save_async() (save_load.h) goes on beside all of this. Whoever would change what it
// reads waits for it first: another save, a load, shards(), local_shard(),
// masters_changed(), set_full_parameter() and the destructor.
//
// All calls but those marked "local" are collective: every rank makes them in the same
// order. Not thread-safe.
class Engine : NoCopy {
 public:
  // Without `ranks` they are those of make_ranks(): of MPI if mpirun or srun started this
  // process, else this process alone. The module is kept and changed:
  // its parameters become views of gathered memory, its buffers move to the device.
  // Throws Error: kUsage for options that do not fit the model, kEnvironment when memory
  // does not suffice.
  Engine(std::shared_ptr<torch::nn::Module> model, const Options& options,
         std::unique_ptr<Ranks> ranks = nullptr);
  // Gives full, unsharded memory back to nobody: parameters of the module are unusable
  // afterwards.
  ~Engine();

  // Run model->forward(args...) with the root unit gathered, and keep it gathered until
  // backward() if gradients are on. Tensor arguments are brought to device(), those of
  // type float cast to the type that the model computes in. Throws Error(kUsage) before
  // anything runs: inside another forward, after a backward() that failed, when
  // requires_grad of a parameter is not what the engine was made with, or for a module
  // with parameters that want a gradient and are not this engine's.
  template <class Model, class... Args>
  auto forward(Model& model, Args&&... args) {
    if constexpr (requires { static_cast<const torch::nn::Module&>(*model); })
      require_own(*model);
    ForwardScope scope(*this);
    if constexpr (std::is_void_v<decltype(model->forward(
                      scope.cast(std::forward<Args>(args))...))>) {
      model->forward(scope.cast(std::forward<Args>(args))...);
      scope.finish();
    } else {
      auto result = model->forward(scope.cast(std::forward<Args>(args))...);
      using Result = decltype(result);
      constexpr bool is_included = requires { sizeof(detail::TensorsOf<Result>); };
      static_assert(is_included || std::is_same_v<Result, at::Tensor>,
                    "include <zero/unit.h> where Engine::forward is called");
      if constexpr (is_included) {
        visit_tensors(result, [&](at::Tensor& tensor) { scope.add_result(tensor); });
      } else if constexpr (std::is_same_v<Result, at::Tensor>) {
        scope.add_result(result);
      }
      scope.finish();
      return result;
    }
  }

  // Add one micro-batch's gradient. `loss_sum` (scalar) is the sum of the losses of its
  // targets, `num_targets` their number on this rank (0 is legal). The step's gradient is
  // the sum over all micro-batches and ranks divided by the sum of all num_targets: a
  // mean over targets, however uneven they are. Other leaves (an input that requires
  // grad) get the gradient of loss_sum.
  //
  // Units of other engines that the graph runs through pass gradients on and keep none
  // for their parameters; so do this engine's in any backward but this one. Throws
  // Error(kUsage) before anything changes when the graph is of an older step, when it
  // reaches no parameter of this engine, and when a gradient went past the results of a
  // unit, which alone pass it on (a member that forward has set). An
  // exception from the backward itself (a unit's body threw when it was recomputed)
  // leaves the step's gradient undefined: then all but discard_gradients() and the
  // destructor throw.
  void backward(const at::Tensor& loss_sum, int64_t num_targets);

  // Forget all backward() calls since the last step. Collective.
  void discard_gradients();

  // Finish the gradient of all backward() calls since the last step, clip, update. Throws
  // Error(kUsage), on every rank, where all of them together have no targets. With
  // Options::overlap_updates the update itself goes on in a thread of its own; every call
  // here that reads what it writes waits for it. Where a save_async() that failed is
  // found out, its error is thrown at the end, once all of this is done.
  StepReport step();
  // Between two steps: freeze the parameters that a glob matches, under any of their
  // names, or train them on. A frozen one has no gradient and is left alone; its moments
  // and its count of updates stay, and those of one that never trained are zero. The plan
  // stays, so what was frozen when the engine was made thaws only if Options::thaws names
  // it. A checkpoint does not tell who is frozen: say it again behind a load. Throws
  // Error(kUsage), and where ranks say different things Error(kDiverged). Collective.
  void set_frozen(const std::string& pattern, bool frozen);
  // Local.
  bool is_frozen(const std::string& fqn) const;
  // Of each parameter that is not frozen now, since this engine was made: has it had a
  // gradient, and have its masters moved? Waits for updates. Collective.
  std::vector<ParamMovement> movements();

  // The learning rate of the steps to come, instead of that of Options::schedule; the
  // same on every rank. Throws Error(kUsage) for a negative one. A checkpoint does not
  // hold it. Local.
  void set_learning_rate(double lr);

  // --- local
  int rank() const;
  int size() const;
  const Mesh& mesh() const;   // how the ranks share the model
  Ranks& control();           // for the caller's own small exchanges
  int64_t num_steps() const;  // updates done
  // num_steps() when the optimizer's state was new, all zeros: 0, unless it started
  // afresh in the middle of a run. AdamW's bias correction counts from there.
  int64_t optimizer_start() const;
  // After loading a checkpoint. Throws Error(kUsage) unless 0 <= start <= steps.
  void set_num_steps(int64_t steps, int64_t optimizer_start = 0);
  // The same of one parameter, under any of its names: later than of the others where it
  // was frozen before, and by one more for each step that Unused::kLeave left it alone.
  // set_num_steps() sets all.
  int64_t optimizer_start(const std::string& fqn) const;
  void set_optimizer_start(const std::string& fqn, int64_t start);
  // Where the scale of an fp16 engine stands; of others it is 1 and stays so. Between
  // steps, after loading a checkpoint, it can be set: one below the options' smallest
  // becomes that. Throws Error(kUsage) for what is no scale, or another than 1
  // where the dtype is not fp16, and inside a step.
  const LossScaleState& loss_scale() const;
  void set_loss_scale(const LossScaleState& state);
  int64_t num_parameters() const;  // unique, unsharded elements
  // This rank's slices, in FQN order of the module; valid and at rest until the next
  // step(), behind which they may lie elsewhere (Options::speculate_bytes). Waits for a
  // save that goes on.
  std::vector<ShardView> shards();
  // One of them, under any name of the parameter. Throws Error(kUsage) for no parameter.
  ShardView local_shard(const std::string& fqn);
  // As checkpoints have them: a complex one as pairs (..., 2); int8, int16 and uint16 as
  // int32, uint32 as int64. Other types that they do not know (fp8, uint64, quantized)
  // are left out. Ignored
  // parameters are among them in all calls about buffers but average_buffers(), and in no
  // call about parameters.
  std::vector<BufferView> buffers();
  // Replace one by a tensor of the same shape, a complex one also by pairs. Throws
  // Error(kUsage) for no buffer, or another shape.
  void set_buffer(const std::string& fqn, const at::Tensor& value);
  std::vector<MemoryEntry> memory() const;  // the plan
  int64_t allocated_bytes() const;  // what was allocated; equals the sum of the plan
  // Activations, which are beside the plan as those on the device are.
  OffloadedBytes offloaded_activations() const;
  bool uses_gpu() const;
  c10::Device device() const;      // where units compute, and forward() returns tensors
  int64_t num_gathers() const;     // all-gathers of units so far
  int64_t num_reductions() const;  // reduce-scatters of units so far
  Traffic traffic() const;         // of weights and gradients so far
  // So far, as far as streams are known to be done. A GPU's are asked, not waited for.
  StreamSeconds stream_seconds();
  const Options& options() const;
  int num_units() const;  // the root unit included when it has parameters
  // Tell that masters were written through shards(), on all ranks: weights in compute
  // precision are made again. Ends the wait of Source::kCheckpoint. Frozen ones, and
  // those of inference, are what the other ranks of a host read: write them when no rank
  // is in a forward.
  void masters_changed();
  // Made with Source::kCheckpoint, and nothing was loaded so far: whatever reads or sets
  // weights throws Error(kUsage).
  bool awaits_values() const;

  // For save_load.h: what saves beside steps need.
  Saves& saves();
  // For what loads: throws Error(kUsage) inside a forward or a backward, and between
  // backward() and step().
  void require_between_steps(const std::string& call) const;

  // The full, current value of a parameter as fp32 on the host, gathered to every rank;
  // collective.
  at::Tensor full_parameter(const std::string& fqn);
  // Of each of these parameters a number of its elements' places and values, as they are
  // or as Options::frozen_dtype would round them: the same on any number of ranks.
  // Collective.
  std::vector<uint64_t> checksums(const std::vector<std::string>& fqns,
                                  DType rounded_to = DType::kFp32);
  // How parameters and buffers started, in the module's order: the same on any number of
  // ranks. Parameters that came from a file or a checkpoint are not among them. Throws
  // Error(kUsage) without Options::init_report.
  const std::vector<InitEntry>& init_report() const;
  // Replace it, from the same full value on every rank; collective. Throws Error(kUsage)
  // for a wrong shape, and values that are not finite in fp32.
  void set_full_parameter(const std::string& fqn, const at::Tensor& value);
  // While the engine awaits values: give those parameters whose FQN matches one of the
  // globs the values that Source::kInit gives them; masters_changed() ends the wait, and
  // calls Options::post_init if all parameters were asked for. Collective. Throws
  // Error(kUsage) when it does not wait.
  void initialize(const std::vector<std::string>& patterns = {"*"});
  // Bring buffers together that differ between ranks, such as running means:
  // floating-point ones become their mean, others the largest value of each element.
  // Collective.
  void average_buffers();
  // What average_buffers() would make of one buffer, on the host; nothing is changed.
  // Collective.
  at::Tensor averaged_buffer(const std::string& fqn);
  // The full mean gradient of the finished backward() calls, before clipping; collective.
  // For tests and logging.
  at::Tensor full_gradient(const std::string& fqn);

 private:
  class ForwardScope : NoCopy {
   public:
    explicit ForwardScope(Engine& engine);
    ~ForwardScope();

    // An argument as the model gets it: tensors in its type, others as they are.
    const at::Tensor& cast(const at::Tensor& argument);
    at::Tensor& cast(at::Tensor& argument);
    at::Tensor&& cast(at::Tensor&& argument);
    template <class T>
    T&& cast(T&& argument) {
      return std::forward<T>(argument);
    }
    void add_result(at::Tensor& result);  // one of the tensors that forward returned
    void finish();

   private:
    Engine& engine_;
  };

  void require_own(const torch::nn::Module& module) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero
