#include "engine/options/check_options.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "engine/comm/choose_gpu.h"
#include "zero/errors.h"

namespace zero {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& cure) {
  throw Error(ExitCode::kUsage, what, "engine options", cure);
}

void check_optimizer(const Options& options, double lr_scale, double weight_decay,
                     const std::string& where, const std::string& cure) {
  try {
    OptimizerOptions optimizer = options.optimizer;
    optimizer.weight_decay = weight_decay;
    check(optimizer, options.schedule.lr * lr_scale);
  } catch (const std::invalid_argument& error) {
    throw Error(ExitCode::kUsage, error.what(), where, cure);
  }
  if (!(options.schedule.lr * lr_scale * weight_decay < 1e30)) {
    throw Error(ExitCode::kUsage,
                "learning rate times weight decay is beyond what a float holds", where,
                cure);
  }
}

void check_type(const std::string& name, DType type, std::initializer_list<DType> known) {
  if (std::ranges::count(known, type) > 0) return;
  std::string names;
  for (const DType each : known)
    names += (names.empty() ? "" : " or ") + std::string(name_of(each));
  refuse(name + " is " + name_of(type), names);
}

void check_types(const Options& options) {
  check_type("dtype", options.dtype, {DType::kFp32, DType::kBf16, DType::kFp16});
  check_type("reduce_dtype", options.reduce_dtype, {DType::kFp32, DType::kBf16});
  check_type("grad_dtype", options.grad_dtype, {DType::kFp32, DType::kBf16});
  check_type("state_dtype", options.state_dtype, {DType::kFp32, DType::kBf16});
  check(options.loss_scale);
  if (options.dtype != DType::kFp16 && options.loss_scale != LossScaleOptions{})
    refuse("a loss scale with dtype " + std::string(name_of(options.dtype)),
           "dtype fp16: gradients of other types do not need one");
}

void check_storage(const Options& options) {
  if (options.master == MasterStorage::kSplit && options.dtype != DType::kBf16)
    refuse("a split master with dtype " + std::string(name_of(options.dtype)),
           "dtype bf16: the high half of a split master is the bf16 that units compute "
           "with");
  if (options.state_dtype == DType::kFp32) return;
  const OptimizerOptions& optimizer = options.optimizer;
  if (optimizer.kind == Optimizer::kAdagrad)
    refuse("state_dtype bf16 for adagrad", "fp32: in bf16 its sum would stop growing");
  const double kept = optimizer.kind == Optimizer::kSgd
                          ? optimizer.momentum
                          : std::max(optimizer.beta1, optimizer.beta2);
  if (kept > kLargestBf16Beta) {
    refuse(
        "state_dtype bf16 with " +
            std::string(optimizer.kind == Optimizer::kSgd ? "momentum " : "a beta of ") +
            std::to_string(kept),
        "0.99 or less: in bf16 such a mean cannot fall; or state_dtype fp32");
  }
}

void check_offload(const Options& options, int world_size, UnitMemory where) {
  const double fraction = options.device_state_fraction;
  if (!(fraction >= 0 && fraction <= 1))
    refuse("device_state_fraction is " + std::to_string(fraction), "from 0 to 1");
  const bool has_state = options.offload == Offload::kNone || fraction > 0;
  if (options.offload == Offload::kAll && !has_state) return;
  const std::string asked = options.offload == Offload::kNone ? "offload none"
                            : options.offload == Offload::kOptimizer
                                ? "offload optimizer"
                                : "a device_state_fraction";
  if (where == UnitMemory::kHost) {
    refuse(asked + " on the CPU, whose memory is the host's already",
           "leave it out (--offload auto), or use a GPU (--device cuda)");
  }
  if (!may_keep_shards(where, world_size)) {
    refuse(asked + " where ranks exchange weights through the host's memory",
           "--offload all, or a GPU for each rank and NCCL");
  }
  if (has_state && options.optimizer.kind != Optimizer::kAdamW && !options.inference) {
    refuse(asked + " with " + name_of(options.optimizer.kind) +
               ": a GPU updates with adamw alone",
           "--offload optimizer keeps its state in the host's memory");
  }
}

void check_pinning(const Options& options, UnitMemory where) {
  if (options.pin == Pin::kTransfers && where == UnitMemory::kHost)
    refuse("pin transfers on the CPU, for which nothing is pinned",
           "leave it out (--pin all), or use a GPU (--device cuda)");
}

void check_activations(const Options& options, bool has_own_memory) {
  if (options.recompute.every < 0)
    refuse("recompute.every is " + std::to_string(options.recompute.every),
           "1 (each unit), 2 (every second one), ..., or 0 (none)");
  if (options.offload_min_bytes < 0)
    refuse("offload_min_bytes is " + std::to_string(options.offload_min_bytes),
           "0 or more");
  if (!options.offload_activations || options.inference) return;
  if (!has_own_memory) {
    refuse("offload_activations on the CPU, whose memory is the host's already",
           "leave it out (--no-offload-activations), or use a GPU (--device cuda)");
  }
  if (options.recompute == Recompute::kNone) {
    refuse(
        "offload_activations with recompute none: only what recomputed units start "
        "from goes to the host",
        "--recompute unit or every:K; or --no-offload-activations");
  }
}

void check_functions(const Options& options) {
  const bool has_functions = options.param_init || !options.init_types.empty();
  const bool holds_values =
      options.source == Source::kRank0 || options.source == Source::kEveryRank;
  if (has_functions && holds_values)
    refuse("init functions with a source that holds the model's values already",
           "leave param_init and init_types out; or Source::kInit, with a model that was "
           "built under zero::DeferredInit");
}

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

void check(const Options& options, int world_size, UnitMemory where) {
  check(options.schedule);
  check_functions(options);
  checked_threads(options);
  check_optimizer(options, 1, options.optimizer.weight_decay, "engine options",
                  "see --lr, --betas, --eps, --weight-decay, --momentum");
  for (const ParamGroup& group : options.groups) {
    check_optimizer(options, group.lr_scale,
                    group.weight_decay.value_or(options.optimizer.weight_decay),
                    "parameter group '" + group.pattern + "'",
                    "lr_scale and weight_decay are numbers >= 0");
  }
  check_types(options);
  check_storage(options);
  check_offload(options, world_size, where);
  check_pinning(options, where);
  check_activations(options, where != UnitMemory::kHost);
  if (!(options.clip >= 0))
    refuse("clip is " + std::to_string(options.clip), "a number >= 0; 0 does not clip");
  if (options.device_memory < 0)
    refuse("device_memory is " + std::to_string(options.device_memory),
           "bytes of a GPU; 0: what it has");
  if (options.prefetch < 0)
    refuse("prefetch is " + std::to_string(options.prefetch), "0 or more units");
  if (!(options.nominal_targets > 1e-30 && options.nominal_targets < 1e30))
    refuse("nominal_targets is " + std::to_string(options.nominal_targets),
           "a positive number, such as micro-batch times sequence length");
  if (options.accumulate == Accumulate::kUnit) {
    if (options.micro_batch < 1)
      refuse("accumulate unit without micro_batch",
             "the rows of a kernel pass, 1 or more");
    if (options.deterministic) {
      refuse("deterministic mode with accumulate unit",
             "accumulate model: units add up their micro-batches in "
             "another order than ranks share them out");
    }
  }
  if (options.micro_batches_per_rank < 1)
    refuse("micro_batches_per_rank is below 1", "1 or more");
  if (options.deterministic && !std::has_single_bit(static_cast<unsigned>(world_size))) {
    refuse("deterministic mode on " + std::to_string(world_size) + " ranks",
           "1, 2, 4, 8 ... ranks: sums over ranks are a tree of pairs, and only then is "
           "it a part of one rank's tree");
  }
}

int checked_threads(const Options& options) {
  const int threads = options.adam_threads;
  if (threads < 0 || threads > 4096)
    refuse("adam_threads is " + std::to_string(threads), "0 (every core) to 4096");
  return threads;
}

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
