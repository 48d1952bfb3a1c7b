#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <utility>

#include "checkpoint/names.h"
#include "engine/engine.h"
#include "engine/engine_impl.h"
#include "engine/errors.h"
#include "engine/init/fill_shards.h"
#include "engine/init/full_model.h"
#include "engine/same_options.h"

namespace zero {
namespace {

// The model's parameters as they were before the engine took them, as long as this lives.
class AsGiven {
 public:
  AsGiven(const std::vector<at::Tensor>& params, const std::vector<at::Tensor>& given)
      : params_(params) {
    for (size_t i = 0; i < params.size(); ++i) {
      taken_.push_back(params[i].detach());
      set(params[i], given[i]);
    }
  }
  ~AsGiven() {
    for (size_t i = 0; i < params_.size(); ++i) set(params_[i], taken_[i]);
  }
  AsGiven(const AsGiven&) = delete;
  AsGiven& operator=(const AsGiven&) = delete;

 private:
  static void set(at::Tensor param, const at::Tensor& data) { param.set_data(data); }

  const std::vector<at::Tensor>& params_;
  std::vector<at::Tensor> taken_;
};

// What starts again starts as in `entries`; in the model's order.
std::vector<InitEntry> merged(const ScannedModel& model,
                              const std::vector<InitEntry>& before,
                              const std::vector<InitEntry>& entries) {
  std::map<std::pair<bool, std::string>, InitEntry> known;
  for (const auto& list : {before, entries}) {
    for (const InitEntry& entry : list) known[{entry.is_buffer, entry.fqn}] = entry;
  }
  std::vector<InitEntry> all;
  const auto add = [&](bool is_buffer, const std::string& fqn) {
    const auto entry = known.find({is_buffer, fqn});
    if (entry != known.end()) all.push_back(entry->second);
  };
  for (const ParamDescription& param : model.params) add(false, param.fqn);
  for (const std::string& fqn : model.buffer_fqns) add(true, fqn);
  return all;
}

}  // namespace

void Engine::Impl::set_first_values() {
  name_deferred(model);
  awaits_values = options.source == Source::kCheckpoint;
  InitFunctions functions(model, options,
                          awaits_values || options.source == Source::kInit);
  if (awaits_values) {
    for (const at::Tensor& tensor : model.tensors)
      given_tensors.push_back(tensor.detach());  // what is deferred stays so
  } else {
    init_report = first_masters(functions);
    refresh_copies();
  }
  const BuffersAre are = awaits_values ? BuffersAre::kReplaced : BuffersAre::kFirstValues;
  init_report =
      merged(model, init_report, fill_buffers(model, options, functions, *control, are));
  require_same_start(model, plan, *control);
}

std::vector<InitEntry> Engine::Impl::first_masters(InitFunctions& functions) {
  if (options.source == Source::kInit)
    return fill_shards(model, plan, options, *shards, functions, *control, threads);
  if (options.source == Source::kEveryRank) require_same_values(model, *control);
  ShardWriter writer(model, plan, *shards, control->rank(), threads, options.init_report);
  return options.source == Source::kRank0 ? take_from_rank_0(model, writer, *control)
                                          : take_own(model, writer, *control);
}

bool Engine::awaits_values() const { return impl_->awaits_values; }

void Engine::initialize(const std::vector<std::string>& patterns) {
  if (!impl_->awaits_values) {
    throw Error(ExitCode::kUsage, "initialize() of an engine that has its values",
                "zero::Engine", "Options::source = Source::kCheckpoint, before a load");
  }
  std::vector<bool> which;
  for (const ParamDescription& param : impl_->model.params)
    which.push_back(checkpoint::matches_any(patterns, param.fqn));
  const bool is_all = std::ranges::count(which, false) == 0;
  if (is_all) which.clear();
  impl_->initialize(which);
  impl_->starts_anew = is_all;
}

// Functions see the model as it was given, with buffers as they are.
void Engine::Impl::initialize(const std::vector<bool>& which) {
  const torch::NoGradGuard no_grad;
  const AsGiven given(model.tensors, given_tensors);
  InitFunctions functions(model, options, /*are_called=*/true);
  std::vector<InitEntry> entries =
      fill_shards(model, plan, options, *shards, functions, *control, threads, which);
  const BuffersAre are = which.empty() ? BuffersAre::kFirstValues : BuffersAre::kReplaced;
  const std::vector<InitEntry> of_buffers =
      fill_buffers(model, options, functions, *control, are);
  entries.insert(entries.end(), of_buffers.begin(), of_buffers.end());
  init_report = merged(model, init_report, entries);
}

const std::vector<InitEntry>& Engine::init_report() const {
  if (!impl_->options.init_report) {
    throw Error(ExitCode::kUsage, "no report of first values was made", "init_report()",
                "Options::init_report = true");
  }
  return impl_->init_report;
}

void Engine::Impl::run_post_init(Engine& engine) {
  if (!options.post_init) return;
  const PhaseFlag in_post_init(is_in_post_init);
  options.post_init(engine, *root);
}

// What post_init writes counts as a first value, but the numbers of the report are those
// of before.
void Engine::Impl::require_first_value(const std::string& fqn, const at::Tensor& value,
                                       bool may_be_infinite) {
  if (!is_in_post_init) return;
  const at::Tensor is_wrong =
      may_be_infinite ? value.isnan() : value.isfinite().logical_not();
  if (is_wrong.any().item<bool>())
    throw Error(ExitCode::kUsage,
                may_be_infinite ? "post_init writes NaN"
                                : "post_init writes values that are not finite",
                fqn, "look at what Options::post_init makes");
  for (InitEntry& entry : init_report) {
    if (entry.fqn == fqn) entry.after_post_init = true;
  }
}

}  // namespace zero
