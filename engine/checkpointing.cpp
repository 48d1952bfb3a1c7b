#include "engine/checkpointing.h"

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
    for (std::string& part : parts) part = broadcast(part, culprit);
    if (ranks_.size() > 1) parts[2] = "rank " + std::to_string(culprit) + ": " + parts[2];
    throw CheckpointError(parts[0], parts[1], parts[2], parts[3]);
  }

  std::string broadcast(const std::string& text, int root) {
    std::array<int64_t, 1> length{
        ranks_.rank() == root ? static_cast<int64_t>(text.size()) : 0};
    ranks_.broadcast(length.data(), sizeof length, root, "length of a text", *stream_);
    stream_->synchronize();
    std::string result = ranks_.rank() == root ? text : std::string(length[0], '\0');
    if (length[0] > 0) ranks_.broadcast(result.data(), length[0], root, "text", *stream_);
    stream_->synchronize();
    return result;
  }

  std::vector<std::string> gather(const std::string& text) {
    std::vector<std::string> texts;
    for (int rank = 0; rank < ranks_.size(); ++rank)
      texts.push_back(broadcast(text, rank));
    return texts;
  }

  void reduce(std::span<double> values, ReduceOp op) {
    ranks_.all_reduce(values, op, "buffers", *stream_);
    stream_->synchronize();
  }

  bool is_first() const { return ranks_.rank() == 0; }
  int rank() const { return ranks_.rank(); }
  int size() const { return ranks_.size(); }

 private:
  Communicator& ranks_;
  const std::string subject_;
  std::unique_ptr<HostStream> stream_;
};

template <class Float>
void average(std::span<Float> values, Agreement& ranks) {
  std::vector<double> low(values.begin(), values.end()), high = low, sum = low;
  ranks.reduce(low, ReduceOp::kMin);
  ranks.reduce(high, ReduceOp::kMax);
  if (low == high) return;
  ranks.reduce(sum, ReduceOp::kSum);
  std::transform(sum.begin(), sum.end(), values.begin(),
                 [&](double total) { return static_cast<Float>(total / ranks.size()); });
}

// Statistics that every rank kept of its own data become one.
void average_buffers(Engine& engine, Agreement& ranks) {
  if (ranks.size() == 1) return;
  for (const BufferView& buffer : engine.buffers()) {
    if (buffer.dtype == "fp32") {
      average<float>({reinterpret_cast<float*>(buffer.bytes.data()),
                      buffer.bytes.size() / sizeof(float)},
                     ranks);
    } else if (buffer.dtype == "fp64") {
      average<double>({reinterpret_cast<double*>(buffer.bytes.data()),
                       buffer.bytes.size() / sizeof(double)},
                      ranks);
    }
  }
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

std::vector<Slice> slices_of(Engine& engine, const SavedState& state) {
  std::vector<Slice> slices;
  for (const ShardView& view : engine.shards()) {
    slices.push_back(slice_of(view, Kind::kParam, view.master));
    if (view.frozen) continue;
    slices.push_back(slice_of(view, Kind::kExpAvg, view.exp_avg));
    slices.push_back(slice_of(view, Kind::kExpAvgSq, view.exp_avg_sq));
  }
  if (engine.rank() != 0) return slices;
  for (const BufferView& buffer : engine.buffers()) {
    const auto dtype = checkpoint::dtype_named(buffer.dtype).value();
    slices.push_back(
        {Kind::kBuffer, buffer.fqn, buffer.shape, dtype, 0,
         static_cast<int64_t>(buffer.bytes.size()) / checkpoint::size_of(dtype),
         buffer.bytes.data()});
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
  average_buffers(engine, ranks);

  std::string temporary;
  ranks.run([&] {
    if (ranks.is_first()) temporary = checkpoint::prepare(run, state.step, existing);
  });
  temporary = ranks.broadcast(temporary, 0);
  try {
    std::string report;
    ranks.run([&] {
      report = to_text(
          write_shard(temporary, ranks.rank(), ranks.size(), slices_of(engine, state)));
    });
    const std::vector<std::string> reports = ranks.gather(report);
    std::string path;
    ranks.run([&] {
      if (!ranks.is_first()) return;
      std::vector<checkpoint::ShardReport> parsed;
      for (const std::string& text : reports)
        parsed.push_back(checkpoint::parse_report(text));
      path = checkpoint::commit(run, temporary, parsed, info_of(engine, state), existing);
    });
    return ranks.broadcast(path, 0);
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
