#pragma once
#include <torch/torch.h>

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/activation_store.h"
#include "engine/activity.h"
#include "engine/call_seed.h"
#include "engine/choose_gpu.h"
#include "engine/comm/collectives.h"
#include "engine/compute_type.h"
#include "engine/device/device.h"
#include "engine/engine.h"
#include "engine/gpu_arithmetic.h"
#include "engine/model_scan.h"
#include "engine/pending_forwards.h"
#include "engine/phase.h"
#include "engine/step/backward_pass.h"
#include "engine/step/gradient_shards.h"
#include "engine/step/update_queue.h"
#include "engine/unit_runtime.h"
#include "engine/weight_streamer.h"
#include "offload/host_arena.h"
#include "offload/thread_pool.h"

namespace zero {

class InitFunctions;

// A flag that is up for the length of a scope.
class PhaseFlag {
 public:
  explicit PhaseFlag(bool& flag) : flag_(flag) { flag_ = true; }
  ~PhaseFlag() { flag_ = false; }

 private:
  bool& flag_;
};

// What an Engine owns. engine.cpp builds it and trains with it; engine_init.cpp gives it
// first values; engine_state.cpp shows its parameters to others.
struct Engine::Impl {
  Impl(std::shared_ptr<torch::nn::Module> module, const Options& options,
       std::unique_ptr<Ranks> given);
  ~Impl();

  void make_collectives();
  void pin_shards();
  void attach();
  void refresh_copies();

  void set_first_values();
  std::vector<InitEntry> first_masters(InitFunctions& functions);
  void initialize(const std::vector<bool>& which);
  void run_post_init(Engine& engine);
  void require_first_value(const std::string& fqn, const at::Tensor& value,
                           bool may_be_infinite);

  void begin_forward();
  void finish_forward();
  void end_forward();
  void require_requires_grad() const;
  void require_no_others() const;
  uint64_t forward_key();
  void hold_root();
  void release_root();
  void release_unneeded_root();

  void require_idle(const std::string& call) const;
  void require_values(const std::string& call) const;
  void require_whole() const;
  void require_default_stream() const;
  void run_backward(const at::Tensor& loss_sum);
  void drop_stray_gradients();
  void forget_step();
  void finish_gradients();
  double divisor() const;
  int64_t device_memory() const;
  double mean_factor() const;
  void begin_updates(double lr, double grad_factor);
  void weights_changed();
  c10::Device torch_device() const { return tensor_device(device->cuda_index()); }
  // On the compute stream.
  StreamClock::Span timed(Work work, std::string_view what) {
    return {device->clock(), device->compute_stream(), work, what};
  }
  Stream& reduce_stream() { return out_stream ? *out_stream : *comm_stream; }

  size_t find(const std::string& fqn) const;  // index of the parameter
  PartShard& shard_of(size_t param) const;    // of its part
  at::Tensor& buffer(const std::string& fqn);
  at::Tensor gather_full(size_t param, const StoredValues& shard);

  std::shared_ptr<torch::nn::Module> root;
  Options options;
  std::unique_ptr<Ranks> control;  // small values that the training thread waits for
  const GpuChoice gpu;
  std::optional<GpuArithmetic> arithmetic;  // where a GPU computes
  std::unique_ptr<Device> device;
  std::unique_ptr<HostArena> exchange;  // of ranks with GPUs, in the host's memory
  std::optional<Pinned> pinned_exchange;
  void* exchange_of_gpu = nullptr;         // or in theirs
  std::shared_ptr<Collectives> comm;       // weights and gradients, on the streams below
  std::shared_ptr<Collectives> host_comm;  // over the host's memory; may be the same
  ThreadPool threads;
  ScannedModel model;
  UnitPlan plan;
  MemoryPlan memory;
  std::unique_ptr<ShardStore> shards;
  std::list<Pinned> pinned_shards;
  std::unique_ptr<ShardKernels> kernels;  // null where no state is on a GPU
  std::unique_ptr<UpdateQueue> updates;
  std::unique_ptr<WeightStreamer> weights;
  std::unique_ptr<GradientShards> gradients;
  std::unique_ptr<BackwardPass> pass;
  std::shared_ptr<ActivationStore> activations;  // null: they stay where they are
  std::vector<std::shared_ptr<UnitRuntime>> runtimes;
  // They go first: they write into what is above. Where one rank's device has its own
  // memory, gradients leave it while weights come.
  std::unique_ptr<Stream> comm_stream, out_stream;

  Phase phase;
  PendingForwards pending;
  int64_t num_steps = 0;
  int64_t optimizer_start = 0;  // num_steps when the optimizer's state was new
  LossScaleState loss_scale;    // of this step; 1 but in fp16
  bool is_broken = false;       // a backward threw: the step's gradient is undefined
  // With Source::kCheckpoint until values are there: each parameter as the model had it.
  std::vector<at::Tensor> given_tensors;
  bool awaits_values = false;
  bool starts_anew = false;  // all of it was initialised: post_init follows
  std::vector<InitEntry> init_report;
  bool is_in_post_init = false;

  // --- a forward
  bool root_is_held = false;  // from a training forward to the end of its backward
  bool scope_holds_root = false;
  bool scope_is_finished = false;
  std::list<at::Tensor> cast_arguments;
  std::optional<CallSeed> forward_seed;
  std::optional<Activity::Stretch> forward_stretch;
  std::optional<StreamClock::Span> forward_span;
  std::optional<WeightWatch> root_watch;
  bool has_compared_root = false;
  // Since the last backward, and without gradients since the last step: each forward
  // draws random numbers of its own.
  uint64_t num_forwards = 0, num_forwards_without_grad = 0;

  // --- a step
  // Of this rank's passes since the last step.
  std::vector<at::Tensor> losses;  // scalars of type double
  std::vector<double> targets;
  // Of all ranks, while they are told: (passes, ranks, {loss, targets}).
  std::vector<double> sums;
  bool gradients_are_finished = false;
  // Once gradients are finished: of all ranks, and this rank's share.
  double loss_total = 0, target_total = 0;
  GradientNorm norm{options.norm};
};

}  // namespace zero
