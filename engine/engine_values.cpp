#include "engine/engine_values.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "base/names.h"
#include "engine/device/host_device.h"
#include "engine/device/torch/compute_type.h"
#include "engine/init/fill_shards.h"
#include "engine/init/full_model.h"
#include "engine/options/check_options.h"
#include "engine/unit/attached_unit.h"
#include "zero/errors.h"

namespace zero {
namespace {

// The model's parameters as they were before the engine took them, as long as this lives.
class AsGiven : NoCopy {
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

EngineValues::EngineValues(EngineResources& own)
    : own_(own),
      state_(own.options.source == Source::kCheckpoint ? State::kAwaited
                                                       : State::kThere) {
  const Options& options = own.options;
  name_deferred(own.model);
  InitFunctions functions(own.model, options,
                          are_awaited() || options.source == Source::kInit);
  if (are_awaited()) {
    for (const at::Tensor& tensor : own.model.tensors)
      given_.push_back(tensor.detach());  // what is deferred stays so
  } else {
    init_report_ = first_masters(functions);
    refresh_copies();
  }
  const BuffersAre are = are_awaited() ? BuffersAre::kReplaced : BuffersAre::kFirstValues;
  init_report_ = merged(own.model, init_report_,
                        fill_buffers(own.model, options, functions, *own.control, are));
  require_same_start(own.model, own.plan, *own.control);
}

std::vector<InitEntry> EngineValues::first_masters(InitFunctions& functions) {
  const Options& options = own_.options;
  const ScannedModel& model = own_.model;
  Ranks& ranks = *own_.control;
  if (options.source == Source::kInit)
    return fill_shards(model, own_.plan, options, *own_.shards, functions, ranks,
                       own_.threads);
  if (options.source == Source::kEveryRank) require_same_values(model, ranks);
  ShardWriter writer(model, own_.plan, *own_.shards, ranks.rank(), own_.threads,
                     options.init_report);
  return options.source == Source::kRank0 ? take_from_rank_0(model, writer, ranks)
                                          : take_own(model, writer, ranks);
}

void EngineValues::initialize(const std::vector<std::string>& patterns) {
  if (!are_awaited())
    reject("initialize() of an engine that has its values", "zero::Engine",
           "Options::source = Source::kCheckpoint, before a load");
  std::vector<bool> which;
  for (const ParamDescription& param : own_.model.params)
    which.push_back(matches_any(patterns, param.fqn));
  const bool is_all = std::ranges::count(which, false) == 0;
  if (is_all) which.clear();
  make_first(which);
  state_ = is_all ? State::kMadeAnew : State::kAwaited;
}

// Functions see the model as it was given, with buffers as they are.
void EngineValues::make_first(const std::vector<bool>& which) {
  const torch::NoGradGuard no_grad;
  const AsGiven given(own_.model.tensors, given_);
  InitFunctions functions(own_.model, own_.options, /*are_called=*/true);
  std::vector<InitEntry> entries =
      fill_shards(own_.model, own_.plan, own_.options, *own_.shards, functions,
                  *own_.control, own_.threads, which);
  const BuffersAre are = which.empty() ? BuffersAre::kFirstValues : BuffersAre::kReplaced;
  const std::vector<InitEntry> of_buffers =
      fill_buffers(own_.model, own_.options, functions, *own_.control, are);
  entries.insert(entries.end(), of_buffers.begin(), of_buffers.end());
  init_report_ = merged(own_.model, init_report_, entries);
}

const std::vector<InitEntry>& EngineValues::init_report() const {
  if (!own_.options.init_report)
    reject("no report of first values was made", "init_report()",
           "Options::init_report = true");
  return init_report_;
}

void EngineValues::require_there(const std::string& call) const {
  if (!are_awaited()) return;
  reject(call + " before the weights are there", "zero::Engine with Source::kCheckpoint",
         "load_checkpoint() or load_safetensors() first; Source::kInit "
         "(Options::source) starts without a checkpoint");
}

bool EngineValues::end_wait() {
  given_.clear();
  if (!are_awaited()) return false;  // post_init may have written them
  return std::exchange(state_, State::kThere) == State::kMadeAnew;
}

void EngineValues::run_post_init(Engine& engine) {
  if (!own_.options.post_init) return;
  const Scoped in_post_init(state_, State::kInPostInit);
  own_.options.post_init(engine, *own_.root);
}

void EngineValues::require_first_value(const std::string& fqn, const at::Tensor& value) {
  if (state_ != State::kInPostInit) return;
  if (value.isnan().any().item<bool>())
    reject("post_init writes NaN", fqn, "look at what Options::post_init makes");
  for (InitEntry& entry : init_report_) {
    if (entry.fqn == fqn) entry.after_post_init = true;
  }
}

void EngineValues::refresh_copies() {
  Stream& compute = own_.device->compute_stream();
  for (size_t p = 0; p < own_.plan.parts.size(); ++p) {
    const PartShard& shard = (*own_.shards)[p];
    const DType type = own_.plan.parts[p].dtype;
    const int64_t numel = own_.plan.parts[p].layout.shard_numel;
    const bool has_copy = shard.copy && shard.master;
    if (has_copy && shard.gpu)
      own_.kernels->round(shard.copy, type, shard.master, numel, compute);
    else if (has_copy)
      shard.renew_copy(type, numel, own_.threads);
    if (shard.weights_on_gpu)
      compute.copy(shard.weights_on_gpu, shard.own_weights(),
                   bytes_of(own_.plan.parts[p].gathered_type(), numel));
  }
  compute.synchronize();
}

size_t EngineValues::find(const std::string& fqn) const {
  const std::vector<ParamDescription>& params = own_.model.params;
  for (size_t i = 0; i < params.size(); ++i) {
    if (std::ranges::count(params[i].names, fqn) > 0) return i;
  }
  for (const IgnoredParam& param : own_.model.ignored) {
    if (std::ranges::count(param.names, fqn) > 0)
      reject("a parameter that Options::ignored leaves to the caller", fqn,
             "its tensor in the module; averaged_buffer() and set_buffer()");
  }
  reject("the model has no such parameter", fqn,
         params.empty() ? "" : "names look like " + params.front().fqn);
}

EngineValues::Home EngineValues::home_of(size_t param) const {
  const auto& [part, index] = own_.plan.places[param];
  return {(*own_.shards)[part], own_.plan.parts[part].layout, index};
}

namespace {

// Every rank's slice, one behind the other, as they lie in a unit's flat tensor.
at::Tensor in_slice_order(const at::Tensor& by_rank, const Mesh& mesh) {
  if (mesh.num_groups() == 1) return by_rank;
  return by_rank.view({mesh.num_groups(), mesh.group, -1})
      .transpose(0, 1)
      .reshape({by_rank.numel()});
}

}  // namespace

at::Tensor EngineValues::gather_full(size_t param, ValuesOf values_of) {
  const auto [part, layout, index] = home_of(param);
  const StoredValues shard = (part.*values_of)(0, layout.shard_numel);
  const std::vector<float> read =
      shard.is_plain() ? std::vector<float>() : shard.read_all();
  const float* const values = shard.is_plain() ? shard.span().data() : read.data();
  const ParamShape& shape = layout.params[index];
  const at::Tensor by_rank = at::empty({layout.numel}, at::kFloat);
  const auto stream = make_inline_stream("whole parameters");
  own_.host_comm->all_gather(values, by_rank.data_ptr<float>(), layout.shard_numel * 4,
                             shape.fqn, *stream);
  stream->synchronize();
  const at::Tensor flat = in_slice_order(by_rank, layout.mesh);
  return flat.narrow(0, layout.offsets[index], shape.numel()).clone().view(shape.shape);
}

at::Tensor& EngineValues::buffer(const std::string& fqn) {
  const std::vector<std::string>& fqns = own_.model.buffer_fqns;
  const auto found = std::ranges::find(fqns, fqn);
  if (found != fqns.end()) return own_.model.buffers[found - fqns.begin()];
  reject("the model has no such buffer", fqn, "");
}

void EngineValues::average_buffers() {
  if (own_.control->size() == 1) return;
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < own_.model.buffers.size(); ++i) {
    if (own_.model.ignored_of(i)) continue;
    at::Tensor buffer = own_.model.buffers[i];
    const at::Tensor average = averaged_buffer(own_.model.buffer_fqns[i]);
    write_buffer(buffer, average);
  }
}

at::Tensor EngineValues::averaged_buffer(const std::string& fqn) {
  const int size = own_.control->size();
  const at::Tensor values = buffer(fqn).detach().to(at::kCPU);
  const torch::NoGradGuard no_grad;
  if (size == 1 || values.numel() == 0) return values.clone();
  if (values.is_complex())
    return at::view_as_complex(average_of(stored_form(values), fqn));
  return average_of(values, fqn);
}

// Of all ranks, value by value: the mean, or of integers the largest.
at::Tensor EngineValues::average_of(const at::Tensor& values, const std::string& fqn) {
  const auto reduced = [&](ReduceOp op) {
    const at::ScalarType type = values.is_floating_point() ? at::kDouble : at::kLong;
    at::Tensor wide = values.to(type).contiguous().clone();
    const auto reduce = [&]<class T>(T* data) {
      own_.control->all_reduce(std::span<T>(data, wide.numel()), op, fqn);
    };
    values.is_floating_point() ? reduce(wide.data_ptr<double>())
                               : reduce(wide.data_ptr<int64_t>());
    return wide;
  };
  const at::Tensor largest = reduced(ReduceOp::kMax);
  // Of alike ones the largest is the value: all ranks give one zero the same sign.
  const bool are_alike = torch::equal(largest, reduced(ReduceOp::kMin));
  const at::Tensor together = values.is_floating_point() && !are_alike
                                  ? reduced(ReduceOp::kSum) / own_.control->size()
                                  : largest;
  return together.to(values.scalar_type());
}

}  // namespace zero
