#pragma once
#include <torch/torch.h>

#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/comm/choose_gpu.h"
#include "engine/comm/collectives.h"
#include "engine/comm/shared_memory.h"
#include "engine/device/device_arena.h"
#include "engine/device/torch/compute_type.h"
#include "engine/step/torch/gradient_shards.h"
#include "engine/step/update_queue.h"
#include "engine/unit/model_scan.h"
#include "offload/host_arena.h"
#include "offload/thread_pool.h"

namespace zero {

// What an engine owns whatever it is doing: ranks, device, plan, shards and streams, in
// the order in which they are made. The model is looked at, and left as it is.
struct EngineResources {
  // Without `given` the ranks are those of make_ranks(). Collective. Throws Error as
  // Engine's constructor.
  EngineResources(std::shared_ptr<torch::nn::Module> module, const Options& options,
                  std::unique_ptr<Ranks> given);
  ~EngineResources();

  // Blocks until nothing of weights and gradients is on its way.
  void wait_for_streams() noexcept;
  Stream& reduce_stream() { return out_stream ? *out_stream : *comm_stream; }
  Workplace workplace() {
    return {plan,    memory,        options, *shards,      *device,          *comm,
            threads, kernels.get(), rank(),  across.get(), across_host.get()};
  }
  int rank() const { return control->rank(); }
  // Planned so, or at rest.
  bool is_frozen(size_t param) const { return plan.rules[param].frozen || rests[param]; }
  const Mesh& mesh() const { return plan.mesh; }
  // Queue the sums of values over all ranks, each of which one rank alone has: with the
  // reductions, so that ranks that made other calls find out there.
  void share(std::span<double> values, const std::string& tag);
  // Tell the gradients whose parameters rest.
  void rest_parts();
  // On the compute stream.
  StreamClock::Span timed(Work work, std::string_view what) {
    return device->timed(device->compute_stream(), work, what);
  }
  c10::Device torch_device() const { return tensor_device(device->gpu_index()); }
  // What this rank may take of its GPU; 0: what there is.
  int64_t device_memory() const {
    return device->has_own_memory() ? options.device_memory / gpu.num_ranks : 0;
  }

  const std::shared_ptr<torch::nn::Module> root;
  const std::unique_ptr<Ranks> control;  // small values that the training thread waits
                                         // for
  ScannedModel model;
  const Options options;  // in numbers: the ranks of a host are counted
  const GpuChoice gpu;
  std::optional<GpuArithmetic> arithmetic;  // where a GPU computes
  const std::unique_ptr<Device> device;
  ThreadPool threads;
  UnitPlan plan;
  std::unique_ptr<Ranks> group;  // of several; else null: it is `control`
  std::vector<bool> rests;  // of each parameter: trained by the plan, but frozen for now
  MemoryPlan memory;
  // Of ranks with GPUs: in the host's memory, or in theirs.
  std::unique_ptr<HostArena> exchange;
  std::optional<Pinned> pinned_exchange;
  std::unique_ptr<DeviceArena> exchange_of_gpu;
  // Weights and gradients, on the streams below, of this rank's group; and where there
  // are several, of its members in all groups.
  std::shared_ptr<Collectives> comm, across, across_host;
  FarRanks far;
  std::shared_ptr<Collectives> host_comm;  // of all, over the host's memory; may be comm
  std::unique_ptr<ShardStore> shards;
  std::list<Pinned> pinned_shards;
  std::unique_ptr<ShardKernels> kernels;  // null where no GPU trains
  std::unique_ptr<UpdateQueue> updates;
  std::unique_ptr<GradientShards> gradients;
  // They go first: they write into what is above. Where one rank's device has its own
  // memory, gradients leave it while weights come.
  std::unique_ptr<Stream> comm_stream, out_stream;

 private:
  Ranks& ranks_of_group() { return group ? *group : *control; }
  UnitMemory memory_of_units();
  std::unique_ptr<SharedMemory> make_shared_memory();
  void make_collectives();
  void make_groups();
  std::shared_ptr<Collectives> collectives_of_gpus(Ranks& ranks);
  void pin_shards();
};

// A copy to the device of memory of the host that is not pinned is done when the call
// returns, though the GPU may not have it yet. Others must be waited for.
inline bool may_go_on(const at::Tensor& source) {
  return source.is_cpu() && !source.is_pinned();
}

}  // namespace zero
