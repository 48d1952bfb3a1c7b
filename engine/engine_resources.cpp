#include "engine/engine_resources.h"

#include <unistd.h>

#include <algorithm>

#include "engine/device/gpu.h"
#include "engine/device/host_device.h"
#include "engine/options/check_options.h"
#include "engine/plan/pinned_ranges.h"
#include "engine/weights/torch/flat_params.h"
#include "zero/errors.h"

namespace zero {
namespace {

// A GPU that cannot be used is an error here, not a slow run.
std::unique_ptr<Device> make_device(const Options& options, const GpuChoice& gpu) {
  if (gpu.index < 0) return make_host_device({.chaos_seed = options.chaos_seed});
  if (torch_knows_gpus())
    return make_gpu(gpu.index, {.chaos_seed = options.chaos_seed,
                                .memory_limit = options.device_memory / gpu.num_ranks});
  throw Error(ExitCode::kEnvironment,
              "LibTorch was asked for CUDA before its part for CUDA was loaded",
              "--device (Options::device)",
              "call zero::num_gpus() first, or link libtorch_cuda; or --device cpu");
}

std::unique_ptr<Ranks> choose_ranks(std::unique_ptr<Ranks> given,
                                    const Options& options) {
  std::unique_ptr<Ranks> ranks = given ? std::move(given) : make_ranks();
  if (!options.trace_comm.empty()) ranks->trace_to(options.trace_comm);
  return ranks;
}

torch::nn::Module& require_model(const std::shared_ptr<torch::nn::Module>& model) {
  if (!model) reject("no model", "zero::Engine", "pass a module");
  if (c10::InferenceMode::is_enabled())
    reject("an engine made inside c10::InferenceMode", "zero::Engine",
           "make it outside; Options::inference keeps weights alone");
  for (const at::Tensor& tensor : model->parameters()) {
    if (tensor.is_inference())
      reject("parameters made inside c10::InferenceMode", "zero::Engine",
             "make the model outside");
  }
  return *model;
}

void require_free(const ScannedModel& model) {
  const auto taken = std::find_if(model.tensors.begin(), model.tensors.end(), is_flat);
  if (taken == model.tensors.end()) return;
  reject(
      "the parameters of this model belong to a zero::Engine, or to one that is "
      "gone",
      model.params[taken - model.tensors.begin()].fqn,
      "make one engine per model, and the model anew for another engine");
}

}  // namespace

EngineResources::EngineResources(std::shared_ptr<torch::nn::Module> module,
                                 const Options& given_options,
                                 std::unique_ptr<Ranks> given)
    : root(std::move(module)),
      options(given_options),
      control(choose_ranks(std::move(given), options)),
      gpu(choose_gpu(options, *control)),
      device(make_device(options, gpu)),
      threads(checked_threads(options)),
      model(scan_model(require_model(root))) {
  require_same_options(options, model, *control);
  check(options, control->size(), unit_memory(gpu));
  require_free(model);
  if (device->has_own_memory()) arithmetic.emplace(options);
  plan = make_unit_plan(model.units, model.params, options, control->size());
  memory = make_memory_plan(plan, options, control->size(), unit_memory(gpu));
  make_collectives();
  comm_stream = device->make_stream("communication");
  // What several ranks exchange is waited for in callbacks, which a GPU may run one after
  // the other, whatever their streams.
  if (device->has_own_memory() && control->size() == 1)
    out_stream = device->make_stream("copy out");
  shards = std::make_unique<ShardStore>(plan, memory, *device);
  if (memory.has_kernels) kernels = make_shard_kernels(*device, options.norm);
  updates = std::make_unique<UpdateQueue>(workplace());
  updates->touch();
  pin_shards();
  gradients = std::make_unique<GradientShards>(workplace(), reduce_stream());
}

EngineResources::~EngineResources() {
  wait_for_streams();
  comm.reset();
}

// Nothing may write into memory that goes away then.
void EngineResources::wait_for_streams() noexcept {
  for (Stream* stream : {comm_stream.get(), &reduce_stream()}) {
    try {
      stream->synchronize();
    } catch (const std::exception&) {
      // whoever waited for this work has been told already
    }
  }
}

// Whole parameters are gathered in the host's memory, whatever the device.
void EngineResources::make_collectives() {
  host_comm = control->make_collectives();
  if (!device->has_own_memory()) {
    comm = host_comm;
  } else if (control->size() == 1) {
    comm = make_lone_collectives();
  } else if (unit_memory(gpu) == UnitMemory::kGpu) {
    if (memory.exchange_bytes > 0)
      exchange_of_gpu =
          std::make_unique<DeviceArena>(*device, "exchange", memory.exchange_bytes);
    comm = make_nccl_collectives(*control, *device,
                                 exchange_of_gpu ? exchange_of_gpu->data() : nullptr,
                                 memory.exchange_bytes);
  } else {
    exchange = std::make_unique<HostArena>("exchange", memory.exchange_bytes);
    pinned_exchange.emplace(*device, exchange->data(), exchange->capacity_bytes());
    const std::span<std::byte> all(exchange->data(), exchange->capacity_bytes());
    comm = make_staged_collectives(control->make_collectives(), *device, all);
  }
}

void EngineResources::pin_shards() {
  try {
    for (const auto& [begin, end] :
         pinned_ranges(plan, memory, options.pin, sysconf(_SC_PAGESIZE)))
      pinned_shards.emplace_back(*device, shards->memory() + begin, end - begin);
  } catch (const Error& error) {
    if (options.pin == Pin::kTransfers) throw;
    throw Error(error.code(), error.problem(), error.where(),
                "--pin transfers (Options::pin), which pins less; " + error.cure());
  }
}

}  // namespace zero
