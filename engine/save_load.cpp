#include "engine/save_load.h"

#include <torch/torch.h>

#include <memory>
#include <span>

#include "checkpoint/commit.h"
#include "checkpoint/compare.h"
#include "checkpoint/error.h"
#include "checkpoint/open_run.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "engine/activity.h"
#include "engine/comm/agreement.h"
#include "engine/errors.h"

namespace zero {
namespace {

using checkpoint::Kind;
using checkpoint::Slice;
using checkpoint::StoredTensor;

// Statistics that every rank kept of its own data are stored as one; the run's own stay.
struct SavedBuffer {
  BufferView view;
  at::Tensor value;  // contiguous, as the view describes it
};

std::vector<SavedBuffer> saved_buffers(Engine& engine) {
  std::vector<SavedBuffer> saved;
  for (const BufferView& view : engine.buffers())
    saved.push_back({view, engine.averaged_buffer(view.fqn).contiguous()});
  return saved;
}

// This rank's masters, and its moments if they are asked for and there are any.
std::vector<Slice> shard_slices(Engine& engine, bool with_moments) {
  std::vector<Slice> slices;
  for (const ShardView& view : engine.shards()) {
    const auto add = [&](Kind kind, std::span<const float> values) {
      slices.push_back({{kind, view.fqn, DType::kFp32, view.shape},
                        view.begin,
                        static_cast<int64_t>(values.size()),
                        values.data()});
    };
    add(Kind::kParam, view.master);
    if (view.frozen || !with_moments) continue;
    add(Kind::kExpAvg, view.exp_avg);
    add(Kind::kExpAvgSq, view.exp_avg_sq);
  }
  return slices;
}

StoredTensor tensor_of(const BufferView& view) {
  return {Kind::kBuffer, view.fqn, view.dtype, view.shape};
}

std::vector<Slice> slices_of(Engine& engine, const std::vector<SavedBuffer>& buffers,
                             const SavedState& state) {
  std::vector<Slice> slices = shard_slices(engine, /*with_moments=*/true);
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
  for (const ShardView& view : engine.shards()) {
    for (const std::string& alias : view.aliases) info.aliases[alias] = view.fqn;
  }
  return info;
}

std::vector<StoredTensor> expected_tensors(Engine& engine, const LoadOptions& options) {
  std::vector<StoredTensor> expected;
  for (const Slice& slice : shard_slices(engine, options.with_optimizer))
    expected.push_back(slice.tensor);
  for (const BufferView& view : engine.buffers()) expected.push_back(tensor_of(view));
  return expected;
}

void check_fits(Engine& engine, const checkpoint::Reader& reader,
                const std::string& folder, const LoadOptions& options) {
  std::vector<Kind> kinds{Kind::kParam, Kind::kBuffer};
  if (options.with_optimizer) kinds.insert(kinds.end(), {Kind::kExpAvg, Kind::kExpAvgSq});
  const checkpoint::Allowances allowed{options.allow_missing, options.allow_extra};
  checkpoint::require_none(
      compare(expected_tensors(engine, options), reader.manifest(), kinds, allowed),
      folder);
}

// What this engine has no place for would be missing from every step that follows.
void require_known_numbers(const checkpoint::Reader& reader, const std::string& folder) {
  std::string unknown;
  for (const auto& [name, number] : reader.manifest().engine)
    unknown += (unknown.empty() ? "" : ", ") + checkpoint::printable(name);
  if (unknown.empty()) return;
  throw checkpoint::CheckpointError(
      folder, "", "the engine that saved it had what this one does not know: " + unknown,
      "load it with the program that saved it, or with a newer one");
}

void read_slice(checkpoint::Reader& reader, const ShardView& view, Kind kind,
                std::span<float> values) {
  // Else it was allowed to be missing.
  const bool is_there = reader.manifest().find(kind, view.fqn) != nullptr;
  if (values.empty() || !is_there) return;
  reader.read(kind, view.fqn, view.begin, static_cast<int64_t>(values.size()),
              values.data());
}

void read_tensors(Engine& engine, checkpoint::Reader& reader,
                  const LoadOptions& options) {
  for (const ShardView& view : engine.shards()) {
    read_slice(reader, view, Kind::kParam, view.master);
    if (!options.with_optimizer) continue;
    read_slice(reader, view, Kind::kExpAvg, view.exp_avg);
    read_slice(reader, view, Kind::kExpAvgSq, view.exp_avg_sq);
  }
  for (const BufferView& buffer : engine.buffers()) {
    const StoredTensor* stored = reader.manifest().find(Kind::kBuffer, buffer.fqn);
    if (stored == nullptr) continue;
    reader.read(Kind::kBuffer, buffer.fqn, 0, stored->numel(), buffer.bytes.data());
  }
}

SavedState state_of(checkpoint::Reader& reader) {
  SavedState state;
  state.step = reader.manifest().step;
  state.config = reader.manifest().config;
  state.position = reader.manifest().position;
  for (const StoredTensor& tensor : reader.manifest().tensors) {
    if (tensor.kind == Kind::kUser)
      state.user[tensor.fqn] = reader.read_all(Kind::kUser, tensor.fqn);
  }
  return state;
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
  const Activity::Stretch stretch("saving step " + std::to_string(state.step));
  const auto existing =
      replace ? checkpoint::Existing::kReplace : checkpoint::Existing::kRefuse;
  ranks.run([] {});  // the same step everywhere, or nobody saves
  const std::vector<SavedBuffer> buffers = saved_buffers(engine);

  std::string temporary;
  ranks.run([&] {
    if (ranks.is_first()) temporary = checkpoint::prepare(*run, state.step, existing);
  });
  temporary = engine.control().broadcast(temporary);
  try {
    std::string report;
    ranks.run([&] {
      report = to_text(write_shard(temporary, ranks.rank(), ranks.size(),
                                   slices_of(engine, buffers, state)));
    });
    const std::vector<std::string> reports = engine.control().gather(report);
    std::string path;
    ranks.run([&] {
      if (!ranks.is_first()) return;
      std::vector<checkpoint::ShardReport> parsed;
      for (const std::string& text : reports)
        parsed.push_back(checkpoint::parse_report(text));
      path =
          checkpoint::commit(*run, temporary, parsed, info_of(engine, state), existing);
    });
    return engine.control().broadcast(path);
  } catch (...) {
    if (ranks.is_first()) checkpoint::discard(*run, temporary);
    throw;
  }
}

SavedState load_checkpoint(Engine& engine, const std::string& folder,
                           const LoadOptions& options) {
  Agreement ranks(engine.control(), "load " + folder);
  const Activity::Stretch stretch("loading " + folder);
  std::unique_ptr<checkpoint::Reader> reader;
  ranks.run([&] {
    reader = std::make_unique<checkpoint::Reader>(folder);
    require_known_numbers(*reader, folder);
    check_fits(engine, *reader, folder, options);
  });
  SavedState state;
  ranks.run([&] {
    read_tensors(engine, *reader, options);
    state = state_of(*reader);
  });
  engine.set_num_steps(options.with_optimizer ? state.step : 0);
  engine.masters_changed();
  return state;
}

}  // namespace zero
