#include "engine/init/fill_shards.h"

#include <torch/torch.h>

#include <algorithm>
#include <optional>

#include "checkpoint/names.h"
#include "engine/activity.h"
#include "engine/errors.h"
#include "engine/init/deferred_init.h"
#include "engine/init/replay.h"

namespace zero {
namespace {

// What the first rule for a parameter says, else what its constructor said, where that
// tells each element by itself.
std::optional<RecordedSpec> spec_of(const ScannedModel& model, size_t param,
                                    const InitRules& rules) {
  for (const auto& [pattern, spec] : rules) {
    for (const std::string& name : model.params[param].names) {
      if (checkpoint::glob_match(pattern, name))
        return RecordedSpec{spec, model.params[param].fqn};
    }
  }
  return recorded_spec(model.tensors[param]);
}

[[noreturn]] void refuse_unknown(const std::string& fqns) {
  throw Error(ExitCode::kUsage, "nothing says how these deferred parameters start", fqns,
              "add a pattern and an InitSpec for them to Options::init");
}

// The values of rank 0; those of this rank stay.
at::Tensor from_rank_0(const at::Tensor& values, const std::string& fqn, Ranks& ranks) {
  if (ranks.size() == 1 || values.numel() == 0) return values.contiguous();
  const at::Tensor received = values.clone(at::MemoryFormat::Contiguous);
  ranks.broadcast(received.data_ptr(), static_cast<int64_t>(received.nbytes()), 0, fqn);
  return received;
}

FirstValues copy_of(const at::Tensor& values) {
  const at::Tensor full = values.to(at::kFloat).contiguous();
  return [full](int64_t begin, std::span<float> slice) {
    std::copy_n(full.const_data_ptr<float>() + begin, slice.size(), slice.data());
  };
}

// What the constructor did, on the whole parameter: the same on every rank.
at::Tensor replayed(const ScannedModel& model, size_t param, uint64_t seed) {
  const at::Tensor values = Replay(seed).values_of(model.tensors[param]).contiguous();
  const int64_t count = num_unwritten(values);
  if (count == 0) return values;
  throw Error(ExitCode::kUsage,
              "its constructor leaves " + std::to_string(count) + " of " +
                  std::to_string(values.numel()) + " elements without a value",
              model.params[param].fqn,
              "set all of them there, or add an InitSpec to Options::init");
}

struct Filler {
  const ScannedModel& model_;
  const UnitPlan& plan_;
  const Options& options_;
  ShardStore& shards_;
  Ranks& ranks_;
  ThreadPool& threads_;
  const std::vector<bool>& which_;  // empty: all

  bool is_wanted(size_t param) const { return which_.empty() || which_[param]; }

  void run() {
    const std::vector<std::optional<RecordedSpec>> specs = choose_specs();
    const Activity::Stretch stretch("first values");
    for (size_t i = 0; i < model_.params.size(); ++i) {
      if (!is_wanted(i)) continue;
      Activity::here().sign();
      if (specs[i])
        fill_from_spec(*specs[i], i);
      else if (is_deferred(model_.tensors[i]))
        fill_by_replay(i);
      else
        fill_from_tensor(i);
    }
  }

  std::vector<std::optional<RecordedSpec>> choose_specs() const {
    std::vector<std::optional<RecordedSpec>> specs(model_.params.size());
    std::string missing;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (!is_wanted(i) || !is_deferred(model_.tensors[i])) continue;
      specs[i] = spec_of(model_, i, options_.init);
      if (!specs[i] && is_unwritten(*recorded_value(model_.tensors[i])))
        missing += (missing.empty() ? "" : ", ") + model_.params[i].fqn;
    }
    if (!missing.empty()) refuse_unknown(missing);
    return specs;
  }

  // Let `make(first element in the parameter, values)` set this rank's slice, if it has
  // one, on all threads.
  template <class Make>
  void set_slice(size_t param, const Make& make) {
    const ParamPlace& place = plan_.places[param];
    for (const Piece& piece : pieces_of(plan_.parts[place.part].layout, ranks_.rank())) {
      if (piece.param != place.index) continue;
      const StoredValues masters =
          shards_[place.part].masters(piece.shard_begin, piece.numel);
      threads_.parallel_for(piece.numel, 1 << 16, [&](int64_t first, int64_t last) {
        masters.set(first, last - first, [&](std::span<float> values) {
          make(piece.param_begin + first, values);
        });
      });
    }
  }

  void fill_from_spec(const RecordedSpec& from, size_t param) {
    set_slice(param, [&](int64_t begin, std::span<float> values) {
      fill(from.spec, options_.seed, from.name, begin, values);
    });
  }

  void fill_by_replay(size_t param) {
    set_slice_from(param, replayed(model_, param, options_.seed));
  }

  void fill_from_tensor(size_t param) {
    const at::Tensor full =
        from_rank_0(model_.tensors[param].detach().to(at::kCPU, at::kFloat),
                    model_.params[param].fqn, ranks_);
    set_slice_from(param, full);
  }

  void set_slice_from(size_t param, const at::Tensor& full) {
    const FirstValues set = copy_of(full);
    set_slice(param, set);
  }
};

}  // namespace

void name_deferred(const ScannedModel& model) {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (size_t i = 0; i < model.params.size(); ++i)
    named.emplace_back(model.params[i].fqn, model.tensors[i]);
  for (size_t i = 0; i < model.buffers.size(); ++i)
    named.emplace_back(model.buffer_fqns[i], model.buffers[i]);
  name_deferred(named);
}

void fill_shards(const ScannedModel& model, const UnitPlan& plan, const Options& options,
                 ShardStore& shards, Ranks& ranks, ThreadPool& threads,
                 const std::vector<bool>& which) {
  torch::NoGradGuard no_grad;
  Filler{model, plan, options, shards, ranks, threads, which}.run();
}

void fill_buffers(const ScannedModel& model, const Options& options, Ranks& ranks) {
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < model.buffers.size(); ++i) {
    at::Tensor buffer = model.buffers[i];
    if (is_deferred(buffer)) Replay(options.seed).give_memory(buffer);
    if (ranks.size() == 1 || options.source == Source::kEveryRank) continue;
    const at::Tensor own = buffer.cpu();
    const at::Tensor first = from_rank_0(own, model.buffer_fqns[i], ranks);
    if (!own.equal(first)) buffer.copy_(first);
  }
}

FirstValues first_values(const ScannedModel& model, size_t param,
                         const Options& options) {
  const torch::NoGradGuard no_grad;
  const at::Tensor& tensor = model.tensors[param];
  if (!is_deferred(tensor)) return copy_of(tensor.detach().cpu());
  const std::optional<RecordedSpec> from = spec_of(model, param, options.init);
  if (from) {
    return [from = *from, seed = options.seed](int64_t begin, std::span<float> values) {
      fill(from.spec, seed, from.name, begin, values);
    };
  }
  if (is_unwritten(*recorded_value(tensor))) refuse_unknown(model.params[param].fqn);
  return copy_of(replayed(model, param, options.seed));
}

}  // namespace zero
