#include "engine/same_options.h"

#include <array>
#include <map>
#include <sstream>

#include "checkpoint/hash.h"
#include "engine/errors.h"

namespace zero {
namespace {

// Lines of "name value"; numbers in hexadecimal, which tells all their digits.
class Lines {
 public:
  Lines() { text_ << std::hexfloat; }
  template <class... Values>
  Lines& add(const std::string& name, const Values&... values) {
    text_ << name;
    ((text_ << ' ' << values), ...);
    text_ << '\n';
    return *this;
  }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

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
    lines.add("auto_wrap.type " + type, "");
}

// Units, names, shapes: one number, as the list may be long.
void add_model(Lines& lines, const ScannedModel& model) {
  Lines all;
  for (const UnitDescription& unit : model.units) all.add(unit.fqn, unit.type);
  for (const ParamDescription& param : model.params) {
    for (const std::string& name : param.names) all.add(name, param.requires_grad);
    for (const int64_t size : param.shape) all.add("", size);
  }
  for (const std::string& fqn : model.buffer_fqns) all.add(fqn, "");
  const std::string text = all.text();
  lines.add("the model's parameters", checkpoint::hash_of(text.data(), text.size()));
}

using Values = std::map<std::string, std::string>;

Values parse(const std::string& text) {
  Values values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t quote = line.rfind('\'');
    const size_t end = line.starts_with("the model")
                           ? line.rfind(' ')
                           : line.find(' ', quote == std::string::npos ? 0 : quote);
    values[line.substr(0, end)] += line.substr(end);
  }
  return values;
}

// "lr (rank 2), clip (ranks 1, 3)": what differs from rank 0.
std::string differences(const std::vector<std::string>& text_of_rank) {
  const Values first = parse(text_of_rank.front());
  std::map<std::string, std::vector<int>> ranks_of;
  for (size_t rank = 1; rank < text_of_rank.size(); ++rank) {
    const Values other = parse(text_of_rank[rank]);
    for (const auto& [name, value] : first) {
      const auto found = other.find(name);
      if (found == other.end() || found->second != value)
        ranks_of[name].push_back(static_cast<int>(rank));
    }
    for (const auto& [name, value] : other) {
      if (!first.contains(name)) ranks_of[name].push_back(static_cast<int>(rank));
    }
  }
  std::string text;
  for (const auto& [name, ranks] : ranks_of) {
    text +=
        (text.empty() ? "" : ", ") + name + (ranks.size() > 1 ? " (ranks " : " (rank ");
    for (size_t i = 0; i < ranks.size(); ++i)
      text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
    text += ")";
  }
  return text;
}

}  // namespace

void require_same_options(const Options& options, const ScannedModel& model,
                          Ranks& ranks) {
  if (ranks.size() == 1) return;
  Lines lines;
  add_schedule(lines, options.schedule);
  add_behaviour(lines, options);
  add_memory(lines, options);
  add_model(lines, model);
  const std::string text = lines.text();
  const auto hash =
      static_cast<int64_t>(checkpoint::hash_of(text.data(), text.size()) >> 1);
  // The largest hash and the largest of the negative ones: the smallest.
  std::array<int64_t, 2> extremes{hash, -hash};
  ranks.all_reduce(extremes, ReduceOp::kMax, "options");
  if (extremes[0] == -extremes[1]) return;
  throw Error(ExitCode::kUsage,
              "ranks were given different options: " + differences(ranks.gather(text)),
              "zero::Engine, compared with rank 0",
              "give every rank the same; only threads, traces and chaos may differ");
}

}  // namespace zero
