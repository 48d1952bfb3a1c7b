#include "engine/save_load.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>

#include "checkpoint/commit.h"
#include "checkpoint/compare.h"
#include "checkpoint/open_run.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "engine/activity.h"
#include "engine/comm/agreement.h"
#include "engine/comm/exchange.h"
#include "engine/errors.h"

namespace zero {
namespace {

using checkpoint::Kind;
using checkpoint::Slice;

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

Slice slice_of(const ShardView& view, Kind kind, std::span<const float> values) {
  Slice slice;
  slice.kind = kind;
  slice.fqn = view.fqn;
  slice.shape = view.shape;
  slice.begin = view.begin;
  slice.numel = static_cast<int64_t>(values.size());
  slice.data = values.data();
  return slice;
}

std::vector<Slice> slices_of(Engine& engine, const std::vector<SavedBuffer>& buffers,
                             const SavedState& state) {
  std::vector<Slice> slices;
  for (const ShardView& view : engine.shards()) {
    slices.push_back(slice_of(view, Kind::kParam, view.master));
    if (view.frozen) continue;
    slices.push_back(slice_of(view, Kind::kExpAvg, view.exp_avg));
    slices.push_back(slice_of(view, Kind::kExpAvgSq, view.exp_avg_sq));
  }
  if (engine.rank() != 0) return slices;
  for (const auto& [view, value] : buffers) {
    slices.push_back({Kind::kBuffer, view.fqn, view.shape,
                      checkpoint::dtype_named(view.dtype).value(), 0, value.numel(),
                      value.const_data_ptr()});
  }
  for (const auto& [name, bytes] : state.user) {
    const auto count = static_cast<int64_t>(bytes.size());
    slices.push_back(
        {Kind::kUser, name, {count}, checkpoint::DType::kUint8, 0, count, bytes.data()});
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

std::vector<checkpoint::ExpectedTensor> expected_tensors(Engine& engine,
                                                         const LoadOptions& options) {
  std::vector<checkpoint::ExpectedTensor> expected;
  for (const ShardView& view : engine.shards()) {
    expected.push_back({Kind::kParam, view.fqn, view.shape});
    if (view.frozen || !options.with_optimizer) continue;
    expected.push_back({Kind::kExpAvg, view.fqn, view.shape});
    expected.push_back({Kind::kExpAvgSq, view.fqn, view.shape});
  }
  for (const BufferView& buffer : engine.buffers()) {
    expected.push_back({Kind::kBuffer, buffer.fqn, buffer.shape,
                        checkpoint::dtype_named(buffer.dtype).value()});
  }
  return expected;
}

void check_fits(Engine& engine, const checkpoint::Reader& reader,
                const std::string& folder, const LoadOptions& options) {
  std::vector<Kind> kinds{Kind::kParam, Kind::kBuffer};
  if (options.with_optimizer) kinds.insert(kinds.end(), {Kind::kExpAvg, Kind::kExpAvgSq});
  const checkpoint::Allowances allowed{options.allow_missing, options.allow_extra};
  checkpoint::require_none(checkpoint::compare(expected_tensors(engine, options),
                                               reader.manifest(), kinds, allowed),
                           folder);
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
    if (!reader.manifest().find(Kind::kBuffer, buffer.fqn)) continue;
    const std::vector<char> bytes = reader.read_all(Kind::kBuffer, buffer.fqn);
    std::memcpy(buffer.bytes.data(), bytes.data(), bytes.size());
  }
}

SavedState state_of(checkpoint::Reader& reader) {
  SavedState state;
  state.step = reader.manifest().step;
  state.config = reader.manifest().config;
  state.position = reader.manifest().position;
  for (const checkpoint::TensorEntry& tensor : reader.manifest().tensors) {
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
  temporary = broadcast_text(engine.control(), temporary);
  try {
    std::string report;
    ranks.run([&] {
      report = to_text(write_shard(temporary, ranks.rank(), ranks.size(),
                                   slices_of(engine, buffers, state)));
    });
    const std::vector<std::string> reports = gather_texts(engine.control(), report);
    std::string path;
    ranks.run([&] {
      if (!ranks.is_first()) return;
      std::vector<checkpoint::ShardReport> parsed;
      for (const std::string& text : reports)
        parsed.push_back(checkpoint::parse_report(text));
      path =
          checkpoint::commit(*run, temporary, parsed, info_of(engine, state), existing);
    });
    return broadcast_text(engine.control(), path);
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
