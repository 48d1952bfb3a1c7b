// Every option as a line of its name and value: what ranks compare.
#include "engine/options/check_options.h"

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

// An option under its own name.
#define SAME(option) lines.add(#option, options.option)

void add_behaviour(Lines& lines, const Options& options) {
  const OptimizerOptions& optimizer = options.optimizer;
  const LossScaleOptions& scale = options.loss_scale;
  SAME(seed), SAME(source), SAME(weight_decay_on), SAME(clip), SAME(norm), SAME(unused),
      SAME(dtype), SAME(reduce_dtype), SAME(grad_dtype), SAME(master), SAME(state_dtype),
      SAME(frozen_dtype), SAME(nominal_targets), SAME(tf32), SAME(deterministic),
      SAME(micro_batches_per_rank), SAME(inference), SAME(average_buffers_each_step),
      SAME(micro_batches_change_buffers), SAME(sync_batch_norm), SAME(init_report);
  lines.add("optimizer", optimizer.kind)
      .add("betas", optimizer.beta1, optimizer.beta2)
      .add("eps", optimizer.eps)
      .add("weight_decay", optimizer.weight_decay)
      .add("momentum", optimizer.momentum, optimizer.nesterov)
      .add("loss_scale", scale.init, scale.window, scale.min);
  for (const ParamGroup& group : options.groups) {
    lines.add("group '" + group.pattern + "'", group.lr_scale,
              group.weight_decay.value_or(-1), group.frozen);
  }
  for (const std::string& pattern : options.thaws) lines.add("thaws '" + pattern + "'");
  for (const Ignored& ignored : options.ignored)
    lines.add("ignored '" + ignored.pattern + "'", ignored.averaged);
  for (const UnitOption& option : options.unit_options) {
    const auto number = [](const auto& value) {
      return value ? static_cast<int>(*value) : -1;
    };
    lines.add("unit '" + option.pattern + "'", number(option.dtype),
              number(option.reshard), number(option.offload));
  }
  lines.add("init functions", static_cast<bool>(options.param_init),
            options.init_types.size(), static_cast<bool>(options.post_init));
  for (const auto& [pattern, spec] : options.init) {
    lines.add("init '" + pattern + "'", spec.kind, spec.a, spec.b, spec.low, spec.high,
              spec.zero_row_begin, spec.zero_row_end);
  }
}

void add_memory(Lines& lines, const Options& options) {
  SAME(device), SAME(share_gpu), SAME(pin), SAME(grad_sums), SAME(shard_ranks),
      SAME(overlap_updates), SAME(speculate_bytes), SAME(prefetch),
      SAME(reshard_after_forward), SAME(offload_activations), SAME(offload_min_bytes),
      SAME(accumulate), SAME(micro_batch), SAME(stream_always);
  lines.add("offload", options.offload, options.device_state_fraction)
      .add("recompute", options.recompute.every)
      .add("auto_wrap.min_numel", options.auto_wrap.min_numel);
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
  SAME(device_memory), SAME(adam_threads), SAME(chaos_seed), SAME(trace_comm);
  return lines;
}

#undef SAME

}  // namespace zero
