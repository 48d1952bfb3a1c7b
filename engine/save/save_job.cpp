#include "engine/save/save_job.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <utility>

#include "engine/comm/agreement.h"
#include "engine/device/host_device.h"
#include "engine/device/torch/compute_type.h"
#include "engine/save/saved_arrays.h"
#include "engine/save/saves.h"
#include "engine/watch/trace.h"
#include "zero/errors.h"

namespace zero {

using checkpoint::Kind;
using checkpoint::Slice;
using checkpoint::StoredTensor;

namespace {

bool is_left_out(const ShardView& view, const SavedState& state) {
  return std::ranges::count(state.left_out, view.fqn) > 0;
}

checkpoint::StepInfo info_of(Engine& engine, const std::vector<ShardView>& views,
                             const SavedState& state) {
  checkpoint::StepInfo info;
  info.step = state.step;
  info.config = state.config;
  info.position = state.position;
  if (engine.optimizer_start() > 0)
    info.engine[kOptimizerStart] = static_cast<double>(engine.optimizer_start());
  if (engine.options().dtype == DType::kFp16) {
    info.engine[kLossScale] = static_cast<double>(engine.loss_scale().scale);
    info.engine[kCleanSteps] = static_cast<double>(engine.loss_scale().num_clean);
  }
  for (const BufferView& view : engine.buffers()) {
    for (const std::string& alias : view.aliases) info.aliases[alias] = view.fqn;
  }
  for (const ShardView& view : views) {
    if (is_left_out(view, state)) continue;
    for (const std::string& alias : view.aliases) info.aliases[alias] = view.fqn;
    const int64_t start = engine.optimizer_start(view.fqn);
    if (!view.state.empty() && start != engine.optimizer_start())
      info.engine[kOptimizerStart + "/" + view.fqn] = static_cast<double>(start);
  }
  return info;
}

void require_values(const Engine& engine) {
  if (!engine.awaits_values()) return;
  reject("save_checkpoint() before the weights are there",
         "zero::Engine with Source::kCheckpoint", "load_checkpoint() first");
}

void require_frozen(const Engine& engine, const std::vector<std::string>& left_out) {
  for (const std::string& fqn : left_out) {
    if (!engine.is_frozen(fqn))
      reject("a parameter that is trained would not be saved", fqn,
             "SavedState::left_out names frozen ones alone");
  }
}

}  // namespace

SaveJob::SaveJob(Engine& engine, SavePlace place, SavedState state,
                 const SaveOptions& options)
    : name_("save step " + std::to_string(state.step)),
      is_first_(engine.rank() == 0),
      place_(std::move(place)),
      existing_(options.replace ? checkpoint::Existing::kReplace
                                : checkpoint::Existing::kRefuse),
      after_(options.after),
      state_(std::move(state)) {
  // The same step everywhere, or nobody saves.
  Agreement(engine.control(), name_).run([&] {
    if (state_.step < 0)
      reject("a save of step " + std::to_string(state_.step), "SavedState::step",
             "0 or more");
    require_values(engine);
    require_frozen(engine, state_.left_out);
  });
  const std::vector<ShardView> views = engine.saves().views();
  info_ = info_of(engine, views, state_);
  add_slices(views, engine.saves().units_of_params());
  add_buffers(engine);
  add_user_bytes();
}

SaveJob::~SaveJob() = default;

void SaveJob::add_slices(const std::vector<ShardView>& views,
                         const std::vector<int>& units) {
  for (size_t i = 0; i < views.size(); ++i) {
    if (is_left_out(views[i], state_)) continue;
    for (Slice& slice : slices_of(views[i], /*with_state=*/true)) {
      slices_.push_back(std::move(slice));
      units_.push_back(units[i]);
    }
  }
}

// Statistics that every rank kept of its own data are stored as one; the run's own stay.
void SaveJob::add_buffers(Engine& engine) {
  for (const BufferView& view : engine.buffers()) {
    const StoredTensor tensor = tensor_of(view);
    const at::Tensor value = engine.averaged_buffer(view.fqn);
    if (!is_first_) continue;
    const at::Tensor stored =
        stored_form(value).to(scalar_type(tensor.dtype)).contiguous();
    buffers_.push_back(stored);
    slices_.push_back({tensor, 0, stored.numel(), stored.const_data_ptr()});
    units_.push_back(0);
  }
}

void SaveJob::add_user_bytes() {
  if (!is_first_) return;
  for (const auto& [name, bytes] : state_.user) {
    const auto count = static_cast<int64_t>(bytes.size());
    slices_.push_back(
        {{Kind::kUser, name, DType::kUint8, {count}}, 0, count, bytes.data()});
    units_.push_back(0);
  }
}

void SaveJob::keep_error(const std::function<void()>& body) noexcept {
  if (error_) return;
  try {
    body();
  } catch (...) {
    error_ = std::current_exception();
  }
}

void SaveJob::open_run() {
  if (place_.run) return;
  checkpoint::make_run_folder(place_.path);
  own_run_ = std::make_unique<checkpoint::OpenRun>(place_.path);
  place_.run = own_run_.get();
}

void SaveJob::begin(Ranks& ranks) noexcept {
  keep_error([&] {
    Agreement together(ranks, name_);
    together.run([&] {
      if (!is_first_) return;
      open_run();
      temporary_ = checkpoint::prepare(*place_.run, state_.step, existing_);
    });
    temporary_ = ranks.broadcast(temporary_);
  });
  // Others find out when all are done.
  if (temporary_.empty()) return;
  keep_error([&] {
    writer_ = std::make_unique<checkpoint::ShardWriter>(temporary_, ranks.rank(),
                                                        ranks.size(), slices_);
  });
}

int64_t SaveJob::write_unit(int unit, const Point* updated) noexcept {
  int64_t num_bytes = 0;
  keep_error([&] {
    if (updated) updated->wait();
    const Trace::Span span("write shard");
    delay_point("save");
    for (size_t i = 0; i < units_.size(); ++i) {
      if (units_[i] != unit) continue;
      writer_->write(static_cast<int64_t>(i));
      num_bytes += slices_[i].num_bytes();
    }
  });
  return num_bytes;
}

std::string SaveJob::finish(Ranks& ranks) {
  // Every rank has the error of begin().
  if (temporary_.empty()) std::rethrow_exception(error_);
  try {
    return commit(ranks);
  } catch (...) {
    if (is_first_) {
      checkpoint::discard(*place_.run, temporary_);
      place_.run->check();  // whose files cannot be found, had the folder moved meanwhile
    }
    throw;
  }
}

std::string SaveJob::commit(Ranks& ranks) {
  Agreement together(ranks, name_);
  std::string report;
  together.run([&] {
    // It lets go of its file: a network file system removes no folder of open ones.
    keep_error([&] { report = to_text(std::exchange(writer_, nullptr)->finish()); });
    if (error_) std::rethrow_exception(error_);
  });
  const std::vector<std::string> reports = ranks.gather(report);
  std::string path;
  together.run([&] {
    if (!is_first_) return;
    const Trace::Span span("commit");
    std::vector<checkpoint::ShardReport> parsed;
    for (const std::string& text : reports)
      parsed.push_back(checkpoint::parse_report(text));
    path = checkpoint::commit(*place_.run, temporary_, parsed, info_, existing_);
  });
  path = ranks.broadcast(path);
  together.run([&] {
    if (is_first_ && after_) after_(path);
  });
  return path;
}

}  // namespace zero
