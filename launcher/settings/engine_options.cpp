#include "launcher/settings/engine_options.h"

#include <map>
#include <string>

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
  LrSchedule schedule;
  schedule.kind = kinds.at(settings.schedule);
  schedule.lr = settings.lr;
  schedule.min_lr = settings.min_lr;
  schedule.warmup_steps = settings.warmup_steps;
  schedule.total_steps = settings.steps;
  schedule.decay_steps = settings.decay_steps;
  return schedule;
}

std::vector<ParamGroup> frozen_groups(const std::vector<std::string>& patterns) {
  std::vector<ParamGroup> groups;
  for (const std::string& pattern : patterns) {
    ParamGroup group;
    group.pattern = pattern;
    group.frozen = true;
    groups.push_back(group);
  }
  return groups;
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
  options.groups = frozen_groups(settings.freeze);
  options.init = family.init_rules(shape);
  options.dtype = dtype_named(settings.dtype).value();
  options.reduce_dtype = dtype_named(settings.reduce_dtype).value();
  options.grad_dtype = dtype_named(settings.grad_dtype).value();
  options.master =
      settings.master == "split" ? MasterStorage::kSplit : MasterStorage::kFp32;
  options.state_dtype = dtype_named(settings.state_dtype).value();
  options.nominal_targets = static_cast<double>(settings.micro_batch * shape.seq_len);
  options.deterministic = settings.deterministic;
  options.micro_batches_per_rank = is_unit_major ? 1 : num_passes(batch);
  options.device = device(settings.device);
  options.prefetch = static_cast<int>(settings.prefetch);
  options.overlap_updates = settings.overlap_updates;
  options.reshard_after_forward = settings.reshard_after_forward;
  options.recompute = settings.recompute == "none" ? Recompute::kNone : Recompute::kUnit;
  options.accumulate = is_unit_major ? Accumulate::kUnit : Accumulate::kModel;
  options.micro_batch = is_unit_major ? settings.micro_batch : 0;
  options.auto_wrap.min_numel = settings.wrap_min_numel;
  options.adam_threads = static_cast<int>(settings.adam_threads);
  options.chaos_seed = static_cast<uint64_t>(settings.chaos);
  options.trace_comm = settings.trace_comm;
  return options;
}

}  // namespace zero::launcher
