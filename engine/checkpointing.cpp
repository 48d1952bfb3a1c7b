#include "engine/checkpointing.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>

#include "checkpoint/commit.h"
#include "checkpoint/compare.h"
#include "checkpoint/error.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "engine/comm/exchange.h"
#include "engine/device/host_device.h"
#include "engine/errors.h"

namespace zero {
namespace {

using checkpoint::CheckpointError;
using checkpoint::Kind;
using checkpoint::Slice;

// The ranks' small exchanges around a save or a load.
class Agreement {
 public:
  // `subject` is what the ranks must agree on: with different ones, all of them throw.
  Agreement(Communicator& ranks, std::string subject)
      : ranks_(ranks),
        subject_(std::move(subject)),
        stream_(make_inline_stream("checkpoint")) {}

  // Run `body` on this rank; then every rank throws the error of the lowest rank whose
  // body failed, if any did.
  void run(const std::function<void()>& body) {
    std::array<std::string, 4> parts;  // file, fqn, problem, cure
    bool failed = true;
    try {
      body();
      failed = false;
    } catch (const CheckpointError& error) {
      parts = {error.file(), error.fqn(), error.problem(), error.cure()};
    } catch (const std::exception& error) {
      parts[2] = error.what();
    }
    std::array<int64_t, 1> first{failed ? ranks_.rank()
                                        : std::numeric_limits<int64_t>::max()};
    ranks_.all_reduce(std::span<int64_t>(first), ReduceOp::kMin, subject_, *stream_);
    stream_->synchronize();
    if (first[0] >= ranks_.size()) return;
    const int culprit = static_cast<int>(first[0]);
    for (std::string& part : parts) part = broadcast_text(ranks_, part, culprit);
    if (ranks_.size() > 1) parts[2] = "rank " + std::to_string(culprit) + ": " + parts[2];
    throw CheckpointError(parts[0], parts[1], parts[2], parts[3]);
  }

  bool is_first() const { return ranks_.rank() == 0; }
  int rank() const { return ranks_.rank(); }
  int size() const { return ranks_.size(); }

 private:
  Communicator& ranks_;
  const std::string subject_;
  std::unique_ptr<HostStream> stream_;
};

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
  const auto existing =
      replace ? checkpoint::Existing::kReplace : checkpoint::Existing::kRefuse;
  ranks.run([] {});  // the same step everywhere, or nobody saves
  const std::vector<SavedBuffer> buffers = saved_buffers(engine);

  std::string temporary;
  ranks.run([&] {
    if (ranks.is_first()) temporary = checkpoint::prepare(run, state.step, existing);
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
      path = checkpoint::commit(run, temporary, parsed, info_of(engine, state), existing);
    });
    return broadcast_text(engine.control(), path);
  } catch (...) {
    if (ranks.is_first()) checkpoint::discard(temporary);
    throw;
  }
}

SavedState load_checkpoint(Engine& engine, const std::string& folder,
                           const LoadOptions& options) {
  Agreement ranks(engine.control(), "load " + folder);
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
