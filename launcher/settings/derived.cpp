#include "launcher/settings/derived.h"

#include <algorithm>
#include <map>

#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

DeviceChoice device(const std::string& name) {
  if (name == "auto") return DeviceChoice::kAuto;
  return name == "cuda" ? DeviceChoice::kCuda : DeviceChoice::kCpu;
}

LrSchedule schedule(const Settings& settings) {
  using Kind = LrSchedule::Kind;
  static const std::map<std::string, Kind> kinds = {{"constant", Kind::kConstant},
                                                    {"linear", Kind::kLinear},
                                                    {"cosine", Kind::kCosine},
                                                    {"wsd", Kind::kWsd}};
  return {.kind = kinds.at(settings.schedule),
          .lr = settings.lr,
          .min_lr = settings.min_lr,
          .warmup_steps = settings.warmup_steps,
          .total_steps = settings.steps,
          .decay_steps = settings.decay_steps};
}

}  // namespace

Options engine_options(const Settings& settings, const BatchPlan& batch,
                       const ModelShape& shape, const ModelFamily& family) {
  const bool is_unit_major = settings.accumulate == "unit";
  Options options;
  options.seed = static_cast<uint64_t>(settings.seed);
  options.optimizer = {.kind = optimizer_named(settings.optimizer).value(),
                       .beta1 = settings.betas[0],
                       .beta2 = settings.betas[1],
                       .eps = settings.eps,
                       .weight_decay = settings.weight_decay,
                       .momentum = settings.momentum,
                       .nesterov = settings.nesterov};
  options.weight_decay_on =
      settings.weight_decay_on == "all" ? WeightDecayOn::kAll : WeightDecayOn::kMatrices;
  options.schedule = schedule(settings);
  options.clip = settings.clip;
  for (const std::string& pattern : settings.freeze)
    options.groups.push_back({.pattern = pattern, .frozen = true});
  options.init = family.init_rules(shape);
  options.dtype = dtype_named(settings.dtype).value();
  options.reduce_dtype = dtype_named(settings.reduce_dtype).value();
  options.grad_dtype = dtype_named(settings.grad_dtype).value();
  options.master =
      settings.master == "split" ? MasterStorage::kSplit : MasterStorage::kFp32;
  options.state_dtype = dtype_named(settings.state_dtype).value();
  options.loss_scale = {.init = settings.loss_scale_init,
                        .window = settings.loss_scale_window,
                        .min = settings.loss_scale_min};
  options.nominal_targets = static_cast<double>(settings.micro_batch * shape.seq_len);
  options.tf32 = settings.tf32;
  options.deterministic = settings.deterministic;
  options.micro_batches_per_rank = is_unit_major ? 1 : num_passes(batch);
  options.device = device(settings.device);
  options.share_gpu = settings.share_gpu;
  options.device_memory = settings.device_memory;
  options.prefetch = static_cast<int>(settings.prefetch);
  options.overlap_updates = settings.overlap_updates;
  options.reshard_after_forward = settings.reshard_after_forward;
  options.recompute = {.every = parse_recompute(settings.recompute).value()};
  options.offload_activations = settings.offload_activations;
  options.offload = settings.offload == "none"        ? Offload::kNone
                    : settings.offload == "optimizer" ? Offload::kOptimizer
                                                      : Offload::kAll;
  options.device_state_fraction =
      parse_fraction(settings.device_state_fraction).value_or(0);
  options.pin = settings.pin == "transfers" ? Pin::kTransfers : Pin::kAll;
  options.accumulate = is_unit_major ? Accumulate::kUnit : Accumulate::kModel;
  options.micro_batch = is_unit_major ? settings.micro_batch : 0;
  options.auto_wrap.min_numel = settings.wrap_min_numel;
  options.adam_threads = static_cast<int>(settings.adam_threads);
  options.chaos_seed = static_cast<uint64_t>(settings.chaos);
  options.trace_comm = settings.trace_comm;
  return options;
}

}  // namespace zero::launcher
