#include "engine/engine_resources.h"

#include <unistd.h>

#include <algorithm>

#include "engine/device/gpu.h"
#include "engine/device/host_device.h"
#include "engine/options/check_options.h"
#include "engine/plan/pinned_ranges.h"
#include "engine/unit/batch_norm_ranks.h"
#include "engine/unit/ignored_params.h"
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

// Groups of a host's ranks are told as a number, which is the same on all hosts.
Options with_host_groups(Options options, Ranks& ranks) {
  if (options.shard_ranks != kRanksOfHost) return options;
  options.shard_ranks = ranks.local_size();
  int64_t found[] = {ranks.local_size(), -ranks.local_size(),
                     ranks.rank() % ranks.local_size() != ranks.local_rank()};
  ranks.all_reduce(std::span(found), ReduceOp::kMax, "ranks of each host");
  const std::string where = "--shard-over host (Options::shard_ranks)";
  if (found[0] != -found[1])
    reject("hosts have different numbers of ranks: " + std::to_string(-found[1]) +
               " and " + std::to_string(found[0]),
           where, "start as many ranks on each host; or shard over all");
  if (found[2] != 0)
    reject("the ranks of a host are not neighbours", where,
           "mpirun --map-by slot (the default) numbers them host by host; or shard over "
           "all");
  return options;
}

// Compared as they were given: a number on one rank and kRanksOfHost on another differ.
Options agreed_options(const Options& given, const ScannedModel& model, Ranks& ranks) {
  require_same_options(given, model, ranks);
  return with_host_groups(given, ranks);
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
      control(choose_ranks(std::move(given), given_options)),
      model(scan_model(require_model(root), given_options.ignored)),
      options(agreed_options(given_options, model, *control)),
      gpu(choose_gpu(options, *control)),
      device(make_device(options, gpu)),
      threads(checked_threads(options)) {
  check(options, control->size(), unit_memory(gpu));
  require_free(model);
  require_synced_batch_norms(*root, options);
  if (device->has_own_memory()) arithmetic.emplace(options);
  plan = make_unit_plan(model.units, model.params, options,
                        Mesh(control->size(), options.shard_ranks));
  if (mesh().num_groups() > 1) group = control->split(mesh().group_of(rank()));
  for (const ParamRule& rule : plan.rules) rests.push_back(rule.thaw > 0);
  memory = make_memory_plan(plan, options, memory_of_units());
  add_ignored(memory.entries, model, options, device->has_own_memory());
  make_collectives();
  comm_stream = device->make_stream("communication");
  // What several ranks exchange is waited for in callbacks, which a GPU may run one after
  // the other, whatever their streams.
  if (device->has_own_memory() && control->size() == 1)
    out_stream = device->make_stream("copy out");
  shards =
      std::make_unique<ShardStore>(plan, memory, *device, rank(), make_shared_memory());
  if (memory.has_kernels)
    kernels = make_shard_kernels(*device, options.norm, memory.num_gpu_movements);
  updates = std::make_unique<UpdateQueue>(workplace());
  updates->touch();
  pin_shards();
  gradients = std::make_unique<GradientShards>(workplace(), reduce_stream());
  rest_parts();
}

EngineResources::~EngineResources() {
  wait_for_streams();
  comm.reset();
  across.reset();
  across_host.reset();
}

void EngineResources::share(std::span<double> values, const std::string& tag) {
  comm->all_reduce(values, SumOrder::kTree, tag, reduce_stream());
  if (!across_host) return;
  if (!device->has_own_memory())
    return across_host->all_reduce(values, SumOrder::kTree, tag, reduce_stream());
  reduce_stream().synchronize();
  const auto stream = make_inline_stream(tag);
  across_host->all_reduce(values, SumOrder::kTree, tag, *stream);
}

void EngineResources::rest_parts() {
  for (int p = 0; p < std::ssize(plan.parts); ++p) {
    if (plan.parts[p].is_frozen) continue;
    gradients->rest(p, std::ranges::all_of(plan.parts[p].params,
                                           [&](int param) { return rests[param]; }));
  }
}

// Nothing may write into memory that goes away then.
void EngineResources::wait_for_streams() noexcept {
  drain(*comm_stream), drain(reduce_stream());
}

UnitMemory EngineResources::memory_of_units() {
  const UnitMemory where = unit_memory(gpu);
  if (where != UnitMemory::kHost || mesh().group == 1 ||
      !has_fixed_weights(plan, options))
    return where;
  const bool can = can_share_memory(ranks_of_group(), *control);
  return can ? UnitMemory::kSharedHost : where;
}

std::unique_ptr<SharedMemory> EngineResources::make_shared_memory() {
  const int64_t bytes = mesh().group * memory.shared_bytes();
  if (bytes == 0) return nullptr;
  return std::make_unique<SharedMemory>(ranks_of_group(), bytes);
}

// Whole parameters are gathered in the host's memory, whatever the device.
void EngineResources::make_collectives() {
  host_comm = control->make_collectives();
  if (memory.has_groups) return make_groups();
  far.in_group = control->size() - control->local_size();
  comm = device->has_own_memory() ? collectives_of_gpus(*control) : host_comm;
}

void EngineResources::make_groups() {
  const std::unique_ptr<Ranks> members = control->split(mesh().member_of(rank()));
  far = {group->size() - group->local_size(), members->size() - members->local_size()};
  across_host = members->make_collectives();
  const bool is_host = !device->has_own_memory();
  comm = is_host ? group->make_collectives() : collectives_of_gpus(*group);
  if (is_host) across = across_host;
  if (unit_memory(gpu) == UnitMemory::kGpu) across = collectives_of_gpus(*members);
}

// Over the memory that units are computed in. All of them exchange through one place, in
// one stream.
std::shared_ptr<Collectives> EngineResources::collectives_of_gpus(Ranks& ranks) {
  if (ranks.size() == 1) return make_lone_collectives();
  if (unit_memory(gpu) == UnitMemory::kGpu) {
    if (memory.exchange_bytes > 0 && !exchange_of_gpu)
      exchange_of_gpu =
          std::make_unique<DeviceArena>(*device, "exchange", memory.exchange_bytes);
    return make_nccl_collectives(ranks, *device,
                                 exchange_of_gpu ? exchange_of_gpu->data() : nullptr,
                                 memory.exchange_bytes);
  }
  exchange = std::make_unique<HostArena>("exchange", memory.exchange_bytes);
  pinned_exchange.emplace(*device, exchange->data(), exchange->capacity_bytes());
  const std::span<std::byte> all(exchange->data(), exchange->capacity_bytes());
  return make_staged_collectives(ranks.make_collectives(), *device, all);
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
