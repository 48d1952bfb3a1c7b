#include "engine/init/fill_shards.h"

#include <ATen/MemoryOverlap.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/names.h"
#include "engine/comm/agreement.h"
#include "engine/init/replay.h"
#include "engine/unit/unit_buffers.h"
#include "engine/watch/activity.h"
#include "zero/deferred_init.h"
#include "zero/errors.h"

namespace zero {
namespace {

[[noreturn]] void refuse_unknown(const std::string& fqns) {
  reject("nothing says how these deferred tensors start", fqns,
         "set them in their constructor; or add a pattern and an InitSpec for them "
         "to Options::init, or a function (Options::param_init)");
}

// The values of rank 0; those of this rank stay.
at::Tensor from_rank_0(const at::Tensor& values, const std::string& fqn, Ranks& ranks) {
  if (ranks.size() == 1 || values.numel() == 0) return values.contiguous();
  const at::Tensor received = values.clone(at::MemoryFormat::Contiguous);
  ranks.broadcast(received.data_ptr(), static_cast<int64_t>(received.nbytes()), 0, fqn);
  return received;
}

SetValues copier_of(const at::Tensor& values) {
  const at::Tensor full = values.to(at::kFloat).contiguous();
  return [full](int64_t begin, std::span<float> slice) {
    std::copy_n(full.const_data_ptr<float>() + begin, slice.size(), slice.data());
  };
}

SetValues drawn_from(const RecordedSpec& from, uint64_t seed) {
  return [from, seed](int64_t begin, std::span<float> values) {
    fill(from.spec, seed, from.name, begin, values);
  };
}

// What the constructor did, on the whole parameter: the same on every rank.
at::Tensor replayed(const ScannedModel& model, size_t param, uint64_t seed) {
  const at::Tensor values = Replay(seed).values_of(model.tensors[param]).contiguous();
  const int64_t count = num_unwritten(values);
  if (count == 0) return values;
  reject("its constructor leaves " + std::to_string(count) + " of " +
             std::to_string(values.numel()) + " elements without a value",
         model.params[param].fqn,
         "set all of them there, or add an InitSpec to Options::init");
}

// The first rule for one of a parameter's names; null: none.
const std::pair<std::string, InitSpec>* rule_for(const std::vector<std::string>& names,
                                                 const InitRules& rules) {
  const auto found = std::ranges::find_if(rules, [&](const auto& rule) {
    return std::ranges::any_of(
        names, [&](const std::string& name) { return glob_match(rule.first, name); });
  });
  return found == rules.end() ? nullptr : &*found;
}

const std::pair<std::string, InitSpec>* rule_for(const ParamDescription& param,
                                                 const InitRules& rules) {
  return param.is_adapter ? nullptr : rule_for(param.names, rules);
}

bool has_no_values(const at::Tensor& tensor) {
  return is_deferred(tensor) && is_unwritten(*recorded_value(tensor));
}

void require_written(const ScannedModel& model) {
  std::string unknown;
  for (size_t i = 0; i < model.buffers.size(); ++i) {
    if (has_unwritten(model.buffers[i]))
      unknown += (unknown.empty() ? "" : ", ") + model.buffer_fqns[i];
  }
  if (!unknown.empty()) refuse_unknown(unknown);
}

// What has memory, unless a rule is for it and the model was built to be filled.
bool is_taken_from_rank_0(const ScannedModel& model, size_t param,
                          const Options& options) {
  return !is_deferred(model.tensors[param]) &&
         !(rule_for(model.params[param], options.init) &&
           std::ranges::any_of(model.tensors, is_deferred));
}

// As first_values(); nothing where nothing says how it starts.
std::optional<FirstValues> known_values(const ScannedModel& model, size_t param,
                                        const Options& options,
                                        InitFunctions& functions) {
  const torch::NoGradGuard no_grad;
  const at::Tensor& tensor = model.tensors[param];
  if (is_taken_from_rank_0(model, param, options))
    return {{"rank 0", "", copier_of(tensor.detach().cpu())}};
  if (const auto values = functions.values_of(param))
    return {{"function of " + *functions.module_of(param), "", copier_of(*values)}};
  if (const auto* rule = rule_for(model.params[param], options.init)) {
    return {{"rule " + rule->first, to_string(rule->second),
             drawn_from({rule->second, model.params[param].fqn}, options.seed)}};
  }
  if (const auto spec = recorded_spec(tensor))
    return {{"constructor", to_string(spec->spec), drawn_from(*spec, options.seed)}};
  if (has_no_values(tensor)) return {};
  return {{"constructor", "", copier_of(replayed(model, param, options.seed))}};
}

// Of a deferred parameter that stays whole: as that of one which does not.
struct WholeStart {
  size_t buffer;
  std::string who;
  RecordedSpec spec;
};

std::vector<WholeStart> starts_of_ignored(const ScannedModel& model,
                                          const InitRules& rules) {
  std::vector<WholeStart> starts;
  for (size_t i = 0; i < model.buffers.size(); ++i) {
    const IgnoredParam* param = model.ignored_of(i);
    if (!param || !is_deferred(param->tensor)) continue;
    const std::string& fqn = model.buffer_fqns[i];
    if (const auto* rule = rule_for(param->names, rules))
      starts.push_back({i, "rule " + rule->first, {rule->second, fqn}});
    else if (const auto spec = recorded_spec(param->tensor))
      starts.push_back({i, "constructor", *spec});
  }
  return starts;
}

void fill_whole(at::Tensor tensor, const RecordedSpec& from, uint64_t seed) {
  const at::Tensor values = at::empty(tensor.sizes(), at::kFloat);
  fill(from.spec, seed, from.name, 0,
       {values.data_ptr<float>(), static_cast<size_t>(values.numel())});
  tensor.copy_(values);
}

InitEntry entry_of(const at::Tensor& buffer, const std::string& fqn,
                   const std::string& who) {
  InitEntry entry{.fqn = fqn, .is_buffer = true, .who = who, .numel = buffer.numel()};
  const at::Tensor values = buffer.cpu().reshape({-1});
  const at::Tensor numbers = values.to(at::kDouble);
  const at::Tensor finite = numbers.masked_select(numbers.isfinite());
  entry.num_infinite = values.numel() - finite.numel();
  if (finite.numel() > 0) {
    entry.mean = finite.mean().item<double>();
    entry.std = finite.std(/*unbiased=*/false).item<double>();
  }
  const at::Tensor floats = numbers.to(at::kFloat).contiguous();
  entry.checksum = checksum_of(
      0, {floats.const_data_ptr<float>(), static_cast<size_t>(floats.numel())});
  return entry;
}

}  // namespace

void name_deferred(const ScannedModel& model) {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (size_t i = 0; i < model.params.size(); ++i)
    named.emplace_back(model.params[i].fqn, model.tensors[i]);
  for (size_t i = 0; i < model.buffers.size(); ++i)
    named.emplace_back(model.buffer_fqns[i], model.buffers[i]);
  name_deferred(named);
}

void require_known(const ScannedModel& model, const Options& options,
                   const InitFunctions& functions, const std::vector<bool>& which) {
  std::string unknown;
  for (size_t i = 0; i < model.params.size(); ++i) {
    if (!which.empty() && !which[i]) continue;
    if (has_no_values(model.tensors[i]) && !functions.module_of(i) &&
        !rule_for(model.params[i], options.init))
      unknown += (unknown.empty() ? "" : ", ") + model.params[i].fqn;
  }
  if (!unknown.empty()) refuse_unknown(unknown);
}

FirstValues first_values(const ScannedModel& model, size_t param, const Options& options,
                         InitFunctions& functions) {
  if (auto values = known_values(model, param, options, functions)) return *values;
  refuse_unknown(model.params[param].fqn);
}

std::vector<InitEntry> fill_shards(const ScannedModel& model, const UnitPlan& plan,
                                   const Options& options, ShardStore& shards,
                                   InitFunctions& functions, Ranks& ranks,
                                   ThreadPool& threads, const std::vector<bool>& which) {
  const torch::NoGradGuard no_grad;
  Activity::Stretch stretch("first values");
  ShardWriter writer(model, plan, shards, ranks.rank(), threads, options.init_report);
  stretch.expect(writer.bytes_of(which));
  std::vector<InitEntry> entries(model.params.size());
  Agreement all(ranks, "first values");
  all.run([&] {
    require_known(model, options, functions, which);
    std::string unknown;
    for (size_t i = 0; i < entries.size(); ++i) {
      if ((!which.empty() && !which[i]) || is_taken_from_rank_0(model, i, options))
        continue;
      const std::string& fqn = model.params[i].fqn;
      const auto values = known_values(model, i, options, functions);
      if (!values) {
        unknown += (unknown.empty() ? "" : ", ") + fqn;  // its function left it
        continue;
      }
      writer.write(i, values->set);
      entries[i] = {.fqn = fqn, .who = values->who, .distribution = values->distribution};
    }
    if (!unknown.empty()) refuse_unknown(unknown);
    if (which.empty()) functions.run_rest();  // they may write what has memory
  });
  for (size_t i = 0; i < entries.size(); ++i) {
    if ((!which.empty() && !which[i]) || !is_taken_from_rank_0(model, i, options))
      continue;
    const std::string& fqn = model.params[i].fqn;
    const at::Tensor own = model.tensors[i].detach().to(at::kCPU, at::kFloat);
    writer.write(i, copier_of(from_rank_0(own, fqn, ranks)));
    entries[i] = {.fqn = fqn, .who = "rank 0"};
  }
  writer.finish(which, entries, ranks);
  if (!options.init_report) return {};
  std::erase_if(entries, [](const InitEntry& entry) { return entry.fqn.empty(); });
  return entries;
}

void write_buffer(at::Tensor buffer, const at::Tensor& value) {
  if (has_same_bytes(buffer, value.to(buffer.scalar_type()))) return;
  if (at::has_internal_overlap(buffer) == at::MemOverlap::Yes)
    buffer.set_data(buffer.contiguous());
  buffer.copy_(value);
}

std::vector<InitEntry> fill_buffers(const ScannedModel& model, const Options& options,
                                    InitFunctions& functions, Ranks& ranks,
                                    BuffersAre are) {
  const torch::NoGradGuard no_grad;
  Agreement all(ranks, "buffers");
  std::vector<InitEntry> entries;
  std::string nan;
  std::map<size_t, std::string> writers;
  all.run([&] {
    const std::vector<WholeStart> starts = starts_of_ignored(model, options.init);
    if (are == BuffersAre::kFirstValues) functions.run_rest();
    for (const at::Tensor& buffer : model.buffers) {
      if (is_deferred(buffer)) Replay(options.seed).give_memory(buffer);
    }
    for (const auto& [buffer, who, spec] : starts) {
      if (functions.writer_of_buffer(buffer)) continue;
      fill_whole(model.buffers[buffer], spec, options.seed);
      writers[buffer] = who;
    }
    if (are == BuffersAre::kFirstValues) require_written(model);
  });
  for (size_t i = 0; i < model.buffers.size(); ++i) {
    at::Tensor buffer = model.buffers[i];
    const std::string& fqn = model.buffer_fqns[i];
    if (ranks.size() > 1 && options.source != Source::kEveryRank)
      write_buffer(buffer, from_rank_0(buffer.cpu(), fqn, ranks));
    if (are == BuffersAre::kFirstValues && buffer.is_floating_point() &&
        buffer.isnan().any().item<bool>())
      nan += (nan.empty() ? "" : ", ") + fqn;
    if (!options.init_report) continue;
    const std::string* writer = functions.writer_of_buffer(i);
    const std::string who = writers.contains(i) ? writers[i] : "constructor";
    entries.push_back(entry_of(buffer, fqn, writer ? "function of " + *writer : who));
  }
  all.run([&] {
    if (nan.empty()) return;
    reject("buffers start with NaN", nan,
           "look at what their constructor or function makes");
  });
  return entries;
}

}  // namespace zero
