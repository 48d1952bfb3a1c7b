#include "engine/same_options.h"

#include "checkpoint/hash.h"
#include "engine/comm/same_lines.h"
#include "engine/init/deferred_init.h"

namespace zero {
namespace {

template <class Enum>
int number(Enum value) {
  return static_cast<int>(value);
}

void add_schedule(Lines& lines, const LrSchedule& schedule) {
  lines.add("schedule", number(schedule.kind))
      .add("lr", schedule.lr)
      .add("min_lr", schedule.min_lr)
      .add("warmup_steps", schedule.warmup_steps)
      .add("total_steps", schedule.total_steps)
      .add("decay_steps", schedule.decay_steps);
}

void add_behaviour(Lines& lines, const Options& options) {
  lines.add("seed", options.seed)
      .add("source", number(options.source))
      .add("optimizer", number(options.optimizer.kind))
      .add("betas", options.optimizer.beta1, options.optimizer.beta2)
      .add("eps", options.optimizer.eps)
      .add("weight_decay", options.optimizer.weight_decay)
      .add("momentum", options.optimizer.momentum, options.optimizer.nesterov)
      .add("weight_decay_on", number(options.weight_decay_on))
      .add("clip", options.clip)
      .add("norm", number(options.norm))
      .add("dtype", number(options.dtype))
      .add("loss_scale", options.loss_scale.init, options.loss_scale.window,
           options.loss_scale.min)
      .add("reduce_dtype", number(options.reduce_dtype))
      .add("grad_dtype", number(options.grad_dtype))
      .add("master", number(options.master))
      .add("state_dtype", number(options.state_dtype))
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
    lines.add("init '" + pattern + "'", number(spec.kind), spec.a, spec.b, spec.low,
              spec.high, spec.zero_row_begin, spec.zero_row_end);
  }
}

void add_memory(Lines& lines, const Options& options) {
  lines.add("device", number(options.device))
      .add("share_gpu", options.share_gpu)
      .add("offload", number(options.offload), options.device_state_fraction)
      .add("pin", number(options.pin))
      .add("overlap_updates", options.overlap_updates)
      .add("prefetch", options.prefetch)
      .add("reshard_after_forward", options.reshard_after_forward)
      .add("recompute", options.recompute.every)
      .add("offload_activations", options.offload_activations)
      .add("offload_min_bytes", options.offload_min_bytes)
      .add("accumulate", number(options.accumulate))
      .add("micro_batch", options.micro_batch)
      .add("auto_wrap.min_numel", options.auto_wrap.min_numel)
      .add("stream_always", options.stream_always);
  for (const std::string& type : options.auto_wrap.types)
    lines.add("auto_wrap.type", type);
}

uint64_t hash_of(const Lines& lines) {
  const std::string text = lines.text();
  return checkpoint::hash_of(text.data(), text.size());
}

// Units, names, shapes: one number, as the list may be long. And which of them have
// memory: other sources are for ranks that differ there, or say so themselves.
void add_model(Lines& lines, const Options& options, const ScannedModel& model) {
  Lines all, deferred;
  for (const UnitDescription& unit : model.units) all.add(unit.fqn, unit.type);
  for (const ParamDescription& param : model.params) {
    for (const std::string& name : param.names) all.add(name, param.requires_grad);
    for (const int64_t size : param.shape) all.add("", size);
  }
  for (const std::string& fqn : model.buffer_fqns) all.add(fqn, "");
  lines.add("the model's parameters", hash_of(all));
  for (const at::Tensor& tensor : model.tensors)
    deferred.add("", options.source == Source::kInit && is_deferred(tensor));
  lines.add("which parameters zero::DeferredInit made", hash_of(deferred));
}

}  // namespace

void require_same_options(const Options& options, const ScannedModel& model,
                          Ranks& ranks) {
  Lines lines;
  add_schedule(lines, options.schedule);
  add_behaviour(lines, options);
  add_memory(lines, options);
  add_model(lines, options, model);
  require_same_lines(
      lines, "ranks were given different options",
      "give every rank the same; only threads, traces and chaos may differ", ranks);
}

void require_same_start(const ScannedModel& model, const UnitPlan& plan, Ranks& ranks) {
  if (ranks.size() == 1) return;
  Lines lines, parts;
  for (const PlannedPart& part : plan.parts) {
    parts.add(part.tag, part.unit, part.is_frozen, number(part.dtype), part.layout.numel);
    for (const int param : part.params) parts.add(model.params[param].fqn, param);
  }
  lines.add("the plan", hash_of(parts));
  for (size_t i = 0; i < model.buffers.size(); ++i) {
    const at::Tensor values = model.buffers[i].cpu().contiguous();
    lines.add("buffer " + model.buffer_fqns[i],
              checkpoint::hash_of(values.const_data_ptr(), values.nbytes()));
  }
  require_same_lines(lines, "ranks would start differently",
                     "the same program and the same model on every rank", ranks);
}

}  // namespace zero
