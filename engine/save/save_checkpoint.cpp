#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>

#include "checkpoint/commit.h"
#include "checkpoint/open_run.h"
#include "checkpoint/writer.h"
#include "engine/comm/agreement.h"
#include "engine/device/torch/compute_type.h"
#include "engine/save/saved_arrays.h"
#include "engine/watch/activity.h"
#include "engine/watch/trace.h"
#include "zero/errors.h"
#include "zero/save_load.h"

namespace zero {
namespace {

using checkpoint::Kind;
using checkpoint::Slice;
using checkpoint::StoredTensor;

// Statistics that every rank kept of its own data are stored as one; the run's own stay.
struct SavedBuffer {
  BufferView view;
  at::Tensor value;  // contiguous, as it is stored
};

std::vector<SavedBuffer> saved_buffers(Engine& engine) {
  std::vector<SavedBuffer> saved;
  for (const BufferView& view : engine.buffers()) {
    const at::Tensor value = engine.averaged_buffer(view.fqn).contiguous();
    saved.push_back({view, value.to(scalar_type(tensor_of(view).dtype))});
  }
  return saved;
}

std::vector<Slice> slices_of(Engine& engine, const std::vector<SavedBuffer>& buffers,
                             const SavedState& state) {
  std::vector<Slice> slices = shard_slices(engine, /*with_state=*/true);
  if (engine.rank() != 0) return slices;
  for (const auto& [view, value] : buffers)
    slices.push_back({tensor_of(view), 0, value.numel(), value.const_data_ptr()});
  for (const auto& [name, bytes] : state.user) {
    const auto count = static_cast<int64_t>(bytes.size());
    slices.push_back(
        {{Kind::kUser, name, DType::kUint8, {count}}, 0, count, bytes.data()});
  }
  return slices;
}

checkpoint::StepInfo info_of(Engine& engine, const SavedState& state) {
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
  for (const ShardView& view : engine.shards()) {
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

}  // namespace

std::string save_checkpoint(Engine& engine, const std::string& run,
                            const SavedState& state, bool replace) {
  Agreement ranks(engine.control(), "save step " + std::to_string(state.step));
  ranks.run([] {});  // the same step everywhere, or nothing is made
  std::unique_ptr<checkpoint::OpenRun> open;
  ranks.run([&] {
    if (!ranks.is_first()) return;
    checkpoint::make_run_folder(run);
    open = std::make_unique<checkpoint::OpenRun>(run);
  });
  return save_checkpoint(engine, open.get(), state, replace);
}

std::string save_checkpoint(Engine& engine, const checkpoint::OpenRun* run,
                            const SavedState& state, bool replace) {
  Agreement ranks(engine.control(), "save step " + std::to_string(state.step));
  Activity::Stretch stretch("saving step " + std::to_string(state.step));
  const auto existing =
      replace ? checkpoint::Existing::kReplace : checkpoint::Existing::kRefuse;
  ranks.run([&] { require_values(engine); });  // the same step everywhere, or nobody
                                               // saves
  const std::vector<SavedBuffer> buffers = saved_buffers(engine);

  std::string temporary;
  ranks.run([&] {
    if (ranks.is_first()) temporary = checkpoint::prepare(*run, state.step, existing);
  });
  temporary = engine.control().broadcast(temporary);
  try {
    std::string report;
    ranks.run([&] {
      const Trace::Span span("write shard");
      std::vector<Slice> slices = slices_of(engine, buffers, state);
      stretch.expect(bytes_of(slices));
      report = to_text(write_shard(temporary, ranks.rank(), ranks.size(), slices));
    });
    const std::vector<std::string> reports = engine.control().gather(report);
    std::string path;
    ranks.run([&] {
      if (!ranks.is_first()) return;
      const Trace::Span span("commit");
      std::vector<checkpoint::ShardReport> parsed;
      for (const std::string& text : reports)
        parsed.push_back(checkpoint::parse_report(text));
      path =
          checkpoint::commit(*run, temporary, parsed, info_of(engine, state), existing);
    });
    return engine.control().broadcast(path);
  } catch (...) {
    if (ranks.is_first()) {
      checkpoint::discard(*run, temporary);
      run->check();  // whose files cannot be found, had the folder moved meanwhile
    }
    throw;
  }
}

}  // namespace zero
