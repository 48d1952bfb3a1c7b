#include "engine/options/options_text.h"

namespace zero {
namespace {

void add_schedule(Lines& lines, const LrSchedule& schedule) {
  lines.add("schedule", schedule.kind)
      .add("lr", schedule.lr)
      .add("min_lr", schedule.min_lr)
      .add("warmup_steps", schedule.warmup_steps)
      .add("total_steps", schedule.total_steps)
      .add("decay_steps", schedule.decay_steps);
}

void add_behaviour(Lines& lines, const Options& options) {
  lines.add("seed", options.seed)
      .add("source", options.source)
      .add("optimizer", options.optimizer.kind)
      .add("betas", options.optimizer.beta1, options.optimizer.beta2)
      .add("eps", options.optimizer.eps)
      .add("weight_decay", options.optimizer.weight_decay)
      .add("momentum", options.optimizer.momentum, options.optimizer.nesterov)
      .add("weight_decay_on", options.weight_decay_on)
      .add("clip", options.clip)
      .add("norm", options.norm)
      .add("dtype", options.dtype)
      .add("loss_scale", options.loss_scale.init, options.loss_scale.window,
           options.loss_scale.min)
      .add("reduce_dtype", options.reduce_dtype)
      .add("grad_dtype", options.grad_dtype)
      .add("master", options.master)
      .add("state_dtype", options.state_dtype)
      .add("nominal_targets", options.nominal_targets)
      .add("tf32", options.tf32)
      .add("deterministic", options.deterministic)
      .add("micro_batches_per_rank", options.micro_batches_per_rank)
      .add("inference", options.inference)
      .add("average_buffers_each_step", options.average_buffers_each_step)
      .add("micro_batches_change_buffers", options.micro_batches_change_buffers);
  for (const ParamGroup& group : options.groups) {
    lines.add("group '" + group.pattern + "'", group.lr_scale,
              group.weight_decay.value_or(-1), group.frozen);
  }
  lines.add("init functions", static_cast<bool>(options.param_init),
            options.init_types.size(), static_cast<bool>(options.post_init));
  for (const auto& [pattern, spec] : options.init) {
    lines.add("init '" + pattern + "'", spec.kind, spec.a, spec.b, spec.low, spec.high,
              spec.zero_row_begin, spec.zero_row_end);
  }
}

void add_memory(Lines& lines, const Options& options) {
  lines.add("device", options.device)
      .add("share_gpu", options.share_gpu)
      .add("offload", options.offload, options.device_state_fraction)
      .add("pin", options.pin)
      .add("overlap_updates", options.overlap_updates)
      .add("prefetch", options.prefetch)
      .add("reshard_after_forward", options.reshard_after_forward)
      .add("recompute", options.recompute.every)
      .add("offload_activations", options.offload_activations)
      .add("offload_min_bytes", options.offload_min_bytes)
      .add("accumulate", options.accumulate)
      .add("micro_batch", options.micro_batch)
      .add("auto_wrap.min_numel", options.auto_wrap.min_numel)
      .add("stream_always", options.stream_always);
  for (const std::string& type : options.auto_wrap.types)
    lines.add("auto_wrap.type", type);
}

}  // namespace

Lines shared_lines(const Options& options) {
  Lines lines;
  add_schedule(lines, options.schedule);
  add_behaviour(lines, options);
  add_memory(lines, options);
  return lines;
}

Lines own_lines(const Options& options) {
  Lines lines;
  lines.add("init_report", options.init_report)
      .add("device_memory", options.device_memory)
      .add("adam_threads", options.adam_threads)
      .add("chaos_seed", options.chaos_seed)
      .add("trace_comm", options.trace_comm);
  return lines;
}

}  // namespace zero
