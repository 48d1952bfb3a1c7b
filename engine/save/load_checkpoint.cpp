#include "engine/save/load_checkpoint.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/text.h"
#include "checkpoint/compare.h"
#include "checkpoint/error.h"
#include "checkpoint/reader.h"
#include "engine/comm/agreement.h"
#include "engine/device/torch/compute_type.h"
#include "engine/save/saved_arrays.h"
#include "engine/watch/activity.h"
#include "zero/errors.h"

namespace zero {
namespace {

using checkpoint::Kind;
using checkpoint::Slice;
using checkpoint::StoredTensor;

bool reads_state(const LoadOptions& options) {
  return options.with_optimizer && !options.fresh_optimizer;
}

bool has_state(const checkpoint::Reader& reader, const std::string& fqn) {
  return std::ranges::any_of(checkpoint::kStateKinds, [&](Kind kind) {
    return reader.manifest().find(kind, fqn) != nullptr;
  });
}

// It was frozen when the checkpoint was saved, or was not there: its state begins.
bool begins_anew(const ShardView& view, const checkpoint::Reader& reader) {
  return !view.state.empty() && !has_state(reader, view.fqn);
}

std::vector<StoredTensor> expected_tensors(Engine& engine, const LoadOptions& options) {
  std::vector<StoredTensor> expected;
  for (const Slice& slice : shard_slices(engine, reads_state(options)))
    expected.push_back(slice.tensor);
  for (const BufferView& view : engine.buffers()) expected.push_back(tensor_of(view));
  return expected;
}

// "exp_avg, exp_avg_sq"
std::string state_kinds(const std::vector<StoredTensor>& tensors) {
  std::string names;
  for (const Kind kind : checkpoint::kStateKinds) {
    if (std::ranges::count(tensors, kind, &StoredTensor::kind) > 0)
      names += (names.empty() ? "" : ", ") + std::string(name_of(kind));
  }
  return names;
}

// What the options let pass; to be asked when all else fits.
void tell_differences(Engine& engine, const checkpoint::Reader& reader,
                      const LoadOptions& options, SavedState& state) {
  std::set<std::pair<Kind, std::string>> known;
  const auto find = [&](Kind kind, const std::string& fqn) {
    const StoredTensor* found = reader.manifest().find(kind, fqn);
    if (found) known.emplace(kind, found->fqn);
    return found;
  };
  for (const ShardView& view : engine.shards()) {
    if (!find(Kind::kParam, view.fqn))
      state.missing.push_back(view.fqn);
    else if (reads_state(options) && begins_anew(view, reader))
      state.thawed.push_back(view.fqn);
    else if (reads_state(options) && view.frozen && has_state(reader, view.fqn))
      state.frozen.push_back(view.fqn);
  }
  for (const BufferView& view : engine.buffers()) find(tensor_of(view).kind, view.fqn);
  for (const StoredTensor& tensor : reader.manifest().tensors) {
    const bool counts = tensor.kind == Kind::kParam || tensor.kind == Kind::kBuffer;
    if (counts && !known.contains({tensor.kind, tensor.fqn}))
      state.extra.push_back(tensor.fqn);
  }
}

// Before a list of every parameter's states tells the same.
void require_same_optimizer(Engine& engine, const checkpoint::Reader& reader,
                            const std::string& folder, const LoadOptions& options) {
  const std::string ours = state_kinds(expected_tensors(engine, options));
  const std::string theirs = state_kinds(reader.manifest().tensors);
  if (ours.empty() || ours == theirs) return;
  if (theirs.empty())
    reject("it holds weights alone, as a seed checkpoint does, and no run that goes on",
           folder,
           "start a run from it: --init-from (LoadOptions::with_optimizer = false)");
  throw checkpoint::CheckpointError(
      folder, "",
      "it holds the state of another optimizer (" + theirs + "); " +
          name_of(engine.options().optimizer.kind) + " keeps " + ours,
      "the optimizer that saved it; or LoadOptions::fresh_optimizer, which starts the "
      "state afresh");
}

// What this engine has no place for would be missing from every step that follows.
void require_known_numbers(const checkpoint::Reader& reader, const std::string& folder) {
  std::string unknown;
  for (const auto& [name, number] : reader.manifest().engine) {
    if (name != kOptimizerStart && !name.starts_with(kOptimizerStart + "/") &&
        name != kLossScale && name != kCleanSteps)
      unknown += (unknown.empty() ? "" : ", ") + printable(name);
  }
  if (unknown.empty()) return;
  throw checkpoint::CheckpointError(
      folder, "", "the engine that saved it had what this one does not know: " + unknown,
      "load it with the program that saved it, or with a newer one");
}

// A whole checkpoint of something else is not a damaged one: Error, not CheckpointError.
void require_fit(Engine& engine, const checkpoint::Reader& reader,
                 const std::string& folder, const LoadOptions& options) {
  if (engine.options().inference && reads_state(options) &&
      !state_kinds(reader.manifest().tensors).empty())
    reject(
        "it holds an optimizer's state, which an engine for inference has no place for",
        folder, "LoadOptions::with_optimizer = false");
  try {
    require_known_numbers(reader, folder);
    require_same_optimizer(engine, reader, folder, options);
    checkpoint::require_none(misfits_of(engine, reader, options), folder);
  } catch (const checkpoint::CheckpointError& error) {
    throw Error(ExitCode::kCheckpoint, error.problem(), error.file(), error.cure());
  }
}

// Of the manifest's numbers of the engine, which must be in [0, highest]; absent: 0.
int64_t number_of(const checkpoint::Reader& reader, const std::string& folder,
                  const std::string& name, int64_t highest) {
  const auto& numbers = reader.manifest().engine;
  const auto found = numbers.find(name);
  if (found == numbers.end()) return 0;
  if (found->second >= 0 && found->second <= static_cast<double>(highest))
    return static_cast<int64_t>(found->second);
  throw checkpoint::CheckpointError(folder, "",
                                    name + " is " + std::to_string(found->second),
                                    "0 to " + std::to_string(highest));
}

// Of parameters whose state began at another step than that of the others.
std::map<std::string, int64_t> starts_of(Engine& engine, const checkpoint::Reader& reader,
                                         const std::string& folder,
                                         const LoadOptions& options) {
  std::map<std::string, int64_t> starts;
  if (!reads_state(options)) return starts;
  const int64_t step = reader.manifest().step;
  for (const ShardView& view : engine.shards()) {
    if (view.state.empty()) continue;
    if (begins_anew(view, reader)) {
      starts[view.fqn] = step;
      continue;
    }
    std::vector<std::string> names = view.aliases;
    names.push_back(view.fqn);
    for (const std::string& name : names) {
      const std::string key = kOptimizerStart + "/" + name;
      if (reader.manifest().engine.contains(key))
        starts[view.fqn] = number_of(reader, folder, key, step);
    }
  }
  return starts;
}

// Of an engine in fp16: the first, unless a run goes on that was saved in fp16.
std::optional<LossScaleState> loss_scale_of(const Engine& engine,
                                            const checkpoint::Reader& reader,
                                            const std::string& folder,
                                            const LoadOptions& options) {
  const LossScaleState state{
      number_of(reader, folder, kLossScale, kLargestLossScale),
      number_of(reader, folder, kCleanSteps, std::numeric_limits<int32_t>::max())};
  const bool is_there = reader.manifest().engine.contains(kLossScale);
  if (is_there && !is_loss_scale(state.scale)) {
    throw checkpoint::CheckpointError(
        folder, "", kLossScale + " is " + std::to_string(state.scale), "a power of two");
  }
  if (engine.options().dtype != DType::kFp16) return {};
  if (!is_there || !options.with_optimizer)
    return LossScaleState{engine.options().loss_scale.init, 0};
  return state;
}

// This rank's part of a tensor, for values that are plain or not.
checkpoint::Wanted wanted_of(const ShardView& view, Kind kind,
                             const StoredValues& values) {
  checkpoint::Wanted wanted{kind, view.fqn, view.begin,
                            static_cast<int64_t>(values.size())};
  if (values.is_plain())
    wanted.out = values.span().data();
  else
    wanted.store = [values](int64_t first, int64_t count, const void* from) {
      values.write(first, {static_cast<const float*>(from), static_cast<size_t>(count)});
    };
  return wanted;
}

// Else it was allowed to be missing.
bool is_there(const checkpoint::Reader& reader, Kind kind, const std::string& fqn) {
  return reader.manifest().find(kind, fqn) != nullptr;
}

void read_shards(Engine& engine, checkpoint::Reader& reader, const LoadOptions& options) {
  std::vector<checkpoint::Wanted> wanted;
  for (const ShardView& view : engine.shards()) {
    for (const auto& [kind, values] : arrays_of(view, reads_state(options))) {
      if (is_there(reader, kind, view.fqn))
        wanted.push_back(wanted_of(view, kind, values));
    }
  }
  reader.read_alone(wanted);
}

// That of an engine without a step is zero, and its pages need not be touched.
void clear_fresh_state(Engine& engine, const checkpoint::Reader& reader,
                       const LoadOptions& options) {
  const bool is_fresh =
      options.fresh_optimizer || (!options.with_optimizer && engine.num_steps() > 0);
  for (const ShardView& view : engine.shards()) {
    const bool begins = reads_state(options) && begins_anew(view, reader);
    if (!is_fresh && !begins) continue;
    for (const auto& [name, values] : view.state) {
      values.set_all(
          [](int64_t, std::span<float> part) { std::ranges::fill(part, 0.0f); });
    }
  }
}

void read_buffers(Engine& engine, checkpoint::Reader& reader) {
  for (const BufferView& buffer : engine.buffers()) {
    const auto [kind, fqn, dtype, shape, pieces] = tensor_of(buffer);
    const StoredTensor* stored = reader.manifest().find(kind, fqn);
    if (stored == nullptr) continue;
    const at::Tensor value = at::empty(shape, scalar_type(dtype));
    reader.read(kind, fqn, 0, stored->numel(), value.mutable_data_ptr());
    engine.set_buffer(buffer.fqn, value);
  }
}

void read_state(checkpoint::Reader& reader, SavedState& state) {
  state.step = reader.manifest().step;
  state.config = reader.manifest().config;
  state.position = reader.manifest().position;
  for (const StoredTensor& tensor : reader.manifest().tensors) {
    if (tensor.kind == Kind::kUser)
      state.user[tensor.fqn] = reader.read_all(Kind::kUser, tensor.fqn);
  }
}

}  // namespace

std::vector<std::string> misfits_of(Engine& engine, const checkpoint::Reader& reader,
                                    const LoadOptions& options) {
  std::vector<StoredTensor> expected = expected_tensors(engine, options);
  // State may come and go with a parameter's being frozen.
  checkpoint::Allowances allowed{options.allow_missing, options.allow_extra};
  const auto allow_state = [&](const std::string& fqn,
                               const std::vector<std::string>& aliases) {
    allowed.extra.push_back(fqn);
    allowed.extra.insert(allowed.extra.end(), aliases.begin(), aliases.end());
  };
  for (const BufferView& view : engine.buffers()) {
    if (view.is_parameter) allow_state(view.fqn, view.aliases);
    if (view.is_converted) allowed.missing.push_back(view.fqn);  // older ones lack it
  }
  for (const ShardView& view : engine.shards()) {
    if (view.frozen) allow_state(view.fqn, view.aliases);
    if (!begins_anew(view, reader)) continue;
    std::erase_if(expected, [&](const StoredTensor& tensor) {
      return tensor.fqn == view.fqn && tensor.kind != Kind::kParam;
    });
  }
  return compare(expected, reader.manifest(), reads_state(options), allowed);
}

SavedState load_checkpoint(Engine& engine, const std::string& folder,
                           const LoadOptions& options) {
  Agreement ranks(engine.control(),
                  "load " + folder + (options.with_optimizer ? "" : ", weights alone") +
                      (options.fresh_optimizer ? ", optimizer afresh" : ""));
  Activity::Stretch stretch("loading " + folder);
  std::unique_ptr<checkpoint::Reader> reader;
  int64_t start = 0;
  std::map<std::string, int64_t> starts;
  std::optional<LossScaleState> scale;
  SavedState state;
  ranks.run([&] {
    engine.require_between_steps("load_checkpoint()");
    reader = std::make_unique<checkpoint::Reader>(folder);
    require_fit(engine, *reader, folder, options);
    start = number_of(*reader, folder, kOptimizerStart, reader->manifest().step);
    starts = starts_of(engine, *reader, folder, options);
    scale = loss_scale_of(engine, *reader, folder, options);
    tell_differences(engine, *reader, options, state);
  });
  if (engine.awaits_values() && !state.missing.empty()) engine.initialize(state.missing);
  ranks.run([&] {
    stretch.expect(bytes_of(shard_slices(engine, reads_state(options))));
    read_shards(engine, *reader, options);
    clear_fresh_state(engine, *reader, options);
    read_buffers(engine, *reader);
    read_state(*reader, state);
  });
  if (scale) engine.set_loss_scale(*scale);
  if (options.with_optimizer)
    engine.set_num_steps(state.step, options.fresh_optimizer ? state.step : start);
  else
    engine.set_num_steps(0);
  for (const auto& [fqn, own] : starts) engine.set_optimizer_start(fqn, own);
  engine.masters_changed();
  return state;
}

}  // namespace zero
