#include <fcntl.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "checkpoint/commit.h"
#include "checkpoint/format.h"
#include "checkpoint/own_files.h"
#include "checkpoint/reader.h"
#include "checkpoint/verify.h"
#include "checkpoint/writer.h"
#include "launcher/bench/bench_ranks.h"
#include "launcher/bench/benches.h"
#include "launcher/process/world.h"
#include "offload/host_arena.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

using checkpoint::Kind;
using checkpoint::Slice;

constexpr int64_t kNumTensors = 12;   // of each kind, as a block has
constexpr int64_t kNumelAtOnce = 64;  // where an arena's pieces begin
constexpr Kind kKinds[] = {Kind::kParam, Kind::kExpAvg, Kind::kExpAvgSq};

// What is in the system's cache when reading begins, as far as the system listens.
enum class Cache { kCold, kWarm };

// What ranks save, and the ways to the disk and back. Each has a part of every tensor;
// the limit of each is a plain file of its own with as many bytes.
class State {
 public:
  State(const std::string& folder, int64_t bytes, Ranks& ranks)
      : ranks_(ranks),
        run_(folder),
        plain_("plain" + std::to_string(ranks.rank())),
        part_numel_(std::max<int64_t>(
                        1, bytes / 4 / (3 * kNumTensors) / ranks.size() / kNumelAtOnce) *
                    kNumelAtOnce),
        arena_("bench", own_bytes()),
        values_(arena_.allocate_array<char>("values", own_bytes())) {
    std::fill_n(values_, own_bytes(), 1);
    slices_ = slices_of(ranks.size());
  }

  int64_t num_bytes() const { return own_bytes() * ranks_.size(); }

  double save() {
    std::string temporary;
    if (ranks_.rank() == 0) {
      if (!saved_.empty()) run_.remove(checkpoint::step_folder(step_));
      temporary = checkpoint::prepare(run_, ++step_);
    }
    temporary = ranks_.broadcast(temporary);
    return slowest([&, this] {
      const auto report =
          checkpoint::write_shard(temporary, ranks_.rank(), ranks_.size(), slices_);
      std::vector<checkpoint::ShardReport> reports;
      for (const std::string& text : ranks_.gather(to_text(report)))
        reports.push_back(checkpoint::parse_report(text));
      if (ranks_.rank() == 0)
        saved_ = checkpoint::commit(run_, temporary, reports, {.step = step_});
      saved_ = ranks_.broadcast(saved_);
    });
  }

  double load(Cache cache) { return load_from(saved_, cache); }

  // From a checkpoint that one rank has written.
  double load_from_one(Cache cache) {
    if (from_one_.empty() && ranks_.rank() == 0) from_one_ = save_from_one();
    from_one_ = ranks_.broadcast(from_one_);
    return load_from(from_one_, cache);
  }

  double verify(Cache cache) {
    prepare_files(saved_, cache);
    return slowest([this] { checkpoint::verify(saved_); });
  }

  double write_plain() {
    const checkpoint::Folder& folder = run_.folder();
    checkpoint::Io& io = run_.io();
    if (folder.has(plain_)) checkpoint::remove_file(folder, plain_);
    return slowest([&, this] {
      checkpoint::File file = folder.create(plain_, io);
      file.write(values_, own_bytes(), 0, io);
      file.sync(io);
      folder.sync(io);
    });
  }

  double read_plain(Cache cache) {
    const checkpoint::File file = run_.folder().open(plain_);
    prepare_file(file, cache);
    return slowest([&, this] { file.read(values_, own_bytes(), 0); });
  }

  double read_plain_direct() {
    checkpoint::File file = run_.folder().open(plain_);
    prepare_file(file, Cache::kCold);
    return slowest([&, this] { file.read_direct(values_, own_bytes(), 0); });
  }

 private:
  int64_t own_bytes() const { return 3 * kNumTensors * part_numel_ * 4; }

  double slowest(const std::function<void()>& work) {
    return slowest_of(ranks_, [&] { return seconds_of(work); })();
  }

  // This rank's part of each tensor of all ranks.
  std::vector<Slice> slices_of(int num_ranks) const {
    std::vector<Slice> slices;
    char* data = values_;
    for (const Kind kind : kKinds) {
      for (int i = 0; i < kNumTensors; ++i, data += part_numel_ * 4) {
        const std::string name = "tensor_" + std::to_string(i);
        slices.push_back({{kind, name, DType::kFp32, {part_numel_ * num_ranks}},
                          part_numel_ * ranks_.rank(),
                          part_numel_,
                          data});
      }
    }
    return slices;
  }

  std::string save_from_one() const {
    constexpr int64_t kStep = 1'000'000;
    std::vector<Slice> slices = slices_;
    for (Slice& slice : slices) {
      slice.numel = part_numel_ * ranks_.size();
      slice.fetch = [](int64_t, int64_t count, void* to) {
        std::fill_n(static_cast<float*>(to), count, 0.5f);
      };
    }
    std::string temporary = checkpoint::prepare(run_, kStep);
    const auto report = checkpoint::write_shard(temporary, 0, 1, slices);
    return checkpoint::commit(run_, temporary, {report}, {.step = kStep});
  }

  double load_from(const std::string& path, Cache cache) {
    prepare_files(path, cache);
    return slowest([&, this] {
      checkpoint::Reader reader(path);
      std::vector<checkpoint::Wanted> wanted;
      char* data = values_;
      for (const auto& [tensor, begin, numel, from, fetch] : slices_) {
        wanted.push_back({tensor.kind, tensor.fqn, begin, numel, data});
        data += numel * 4;
      }
      reader.read_alone(wanted);
    });
  }

  void prepare_files(const std::string& path, Cache cache) {
    const checkpoint::Folder folder(path);
    for (const std::string& name : folder.names()) prepare_file(folder.open(name), cache);
  }

  void prepare_file(const checkpoint::File& file, Cache cache) {
    if (cache == Cache::kCold) {
      posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
      return;
    }
    const int64_t bytes = file.size_bytes();
    for (int64_t at = 0; at < bytes; at += own_bytes())
      file.read(values_, std::min(own_bytes(), bytes - at), at);
  }

  Ranks& ranks_;
  const checkpoint::OpenRun run_;
  const std::string plain_;
  const int64_t part_numel_;  // of one rank's part of a tensor
  HostArena arena_;           // as an engine's
  char* const values_;
  std::vector<Slice> slices_;
  std::string saved_, from_one_;  // the checkpoints' folders
  int64_t step_ = 0;
};

struct Entry {
  std::string name, cache;  // what is compared with what: entries of the same cache
  Contestant work;
  bool is_limit = false;
  Seconds seconds = {};
};

std::vector<Entry> entries_of(State& state, const Ranks& ranks) {
  std::vector<Entry> entries = {
      {"plain file written", "", [&] { return state.write_plain(); }, true},
      {"save", "", [&] { return state.save(); }}};
  for (const auto& [cache, name] :
       {std::pair(Cache::kCold, "cold"), {Cache::kWarm, "warm"}}) {
    entries.push_back(
        {"plain file read", name, [&, cache] { return state.read_plain(cache); }, true});
    entries.push_back({"load", name, [&, cache] { return state.load(cache); }});
    if (ranks.size() > 1)
      entries.push_back({"load from one rank's", name,
                         [&, cache] { return state.load_from_one(cache); }});
    else
      entries.push_back({"verify", name, [&, cache] { return state.verify(cache); }});
  }
  entries.push_back({"plain file read past the cache", "cold",
                     [&] { return state.read_plain_direct(); }, true});
  return entries;
}

const Entry& limit_of(const Entry& entry, const std::vector<Entry>& entries) {
  const Entry* best = nullptr;
  for (const Entry& other : entries) {
    if (!other.is_limit || other.cache != entry.cache) continue;
    if (best == nullptr || median(other.seconds) < median(best->seconds)) best = &other;
  }
  return *best;
}

std::vector<Row> measure_state(State& state, const Ranks& ranks, int64_t num_rounds) {
  std::vector<Entry> entries = entries_of(state, ranks);
  std::vector<Contestant> contestants;
  for (const Entry& entry : entries) contestants.push_back(entry.work);
  const std::vector<Seconds> seconds = alternate(contestants, num_rounds);
  for (size_t i = 0; i < entries.size(); ++i) entries[i].seconds = seconds[i];
  std::vector<Row> rows;
  for (const Entry& entry : entries) {
    if (entry.is_limit) continue;
    const Entry& limit = limit_of(entry, entries);
    rows.push_back(with_result({{"name", entry.name},
                                {"cache", entry.cache},
                                {"ranks", ranks.size()},
                                {"bytes", state.num_bytes()}},
                               entry.seconds, state.num_bytes(), limit.name,
                               limit.seconds));
  }
  return rows;
}

}  // namespace

std::vector<Row> bench_checkpoint(const BenchOptions& options, const World& world) {
  const std::unique_ptr<Ranks> ranks = world.make_ranks();
  const BenchFolder folder(options.settings.out, *ranks);
  State state(folder.path(), options.size, *ranks);
  return measure_state(state, *ranks, options.rounds);
}

}  // namespace zero::launcher
