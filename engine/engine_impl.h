#pragma once
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/call_seed.h"
#include "engine/device/host_device.h"
#include "engine/engine.h"
#include "engine/model_scan.h"
#include "engine/step/backward_pass.h"
#include "engine/step/gradient_shards.h"
#include "engine/unit_runtime.h"
#include "engine/weight_streamer.h"
#include "offload/thread_pool.h"

namespace zero {

// What an Engine owns. engine.cpp builds it and trains with it; engine_state.cpp shows
// its parameters to others.
struct Engine::Impl {
  Impl(std::shared_ptr<torch::nn::Module> module, const Options& options,
       std::unique_ptr<Communicator> given);
  ~Impl();

  void attach_units();
  std::vector<std::vector<at::Tensor>> params_of_units() const;
  void refresh_copies();

  void begin_forward();
  void end_forward();
  void release_root();
  void finish_gradients();
  double mean_factor() const;
  void update_all(double lr, double grad_factor);

  struct Place {
    int unit = 0, index = 0;  // in the unit's layout
    bool is_frozen = false;
  };
  Place find(const std::string& fqn) const;
  const FlatLayout& layout_of(const Place& place) const;
  at::Tensor gather_full(const Place& place, const float* shard);

  std::shared_ptr<torch::nn::Module> root;
  Options options;
  std::unique_ptr<Communicator> comm, control;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> comm_stream;
  std::unique_ptr<HostStream> inline_stream;
  ThreadPool threads;
  ScannedModel model;
  UnitPlan plan;
  MemoryPlan memory;
  std::unique_ptr<ShardStore> shards;
  std::unique_ptr<WeightStreamer> weights;
  std::unique_ptr<GradientShards> gradients;
  std::unique_ptr<BackwardPass> pass;
  std::vector<std::shared_ptr<UnitRuntime>> runtimes;

  int64_t num_steps = 0;
  bool root_is_held = false;  // from a training forward to the end of its backward
  int num_forwards = 0;       // scopes that are open
  bool scope_holds_root = false;
  std::optional<CallSeed> forward_seed;
  std::vector<double> losses, targets;  // of this rank's passes since the last step
  bool gradients_are_finished = false;
  double loss_total = 0, target_total = 0;  // of all ranks, once gradients are finished
};

}  // namespace zero
