#include <fcntl.h>

#include <algorithm>

#include "checkpoint/commit.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "checkpoint/own_files.h"
#include "checkpoint/own_folder.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "launcher/bench/benches.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using checkpoint::Kind;

constexpr int64_t kNumTensors = 12;  // of each kind, as a block has
constexpr char kPlain[] = "plain";   // the file that is the limit

// What is read next comes from the disk, as far as the system listens.
void forget_pages(const checkpoint::File& file) {
  posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
}

// Masters and moments, and the two ways to the disk and back.
class State {
 public:
  State(const std::string& folder, int64_t bytes)
      : run_(folder),
        tensor_numel_(std::max<int64_t>(1, bytes / 4 / (3 * kNumTensors))),
        values_(3 * kNumTensors * tensor_numel_, 0.5f) {
    float* data = values_.data();
    for (const Kind kind : {Kind::kParam, Kind::kExpAvg, Kind::kExpAvgSq}) {
      for (int i = 0; i < kNumTensors; ++i, data += tensor_numel_)
        slices_.push_back(
            {{kind, "tensor_" + std::to_string(i), DType::kFp32, {tensor_numel_}},
             0,
             tensor_numel_,
             data});
    }
  }

  int64_t num_bytes() const { return std::ssize(values_) * 4; }

  double save() {
    if (!saved_.empty()) run_.remove(checkpoint::step_folder(step_));
    ++step_;
    return seconds_of([this] {
      const std::string temporary = checkpoint::prepare(run_, step_);
      const auto report = checkpoint::write_shard(temporary, 0, 1, slices_);
      saved_ = checkpoint::commit(run_, temporary, {report}, {.step = step_});
    });
  }

  double load() {
    const checkpoint::Folder folder(saved_);
    for (const std::string& name : folder.names()) forget_pages(folder.open(name));
    return seconds_of([this] {
      checkpoint::Reader reader(saved_);
      float* data = values_.data();
      for (const checkpoint::Slice& slice : slices_) {
        reader.read(slice.tensor.kind, slice.tensor.fqn, 0, slice.numel, data);
        data += slice.numel;
      }
    });
  }

  double write_plain() {
    const checkpoint::Folder& folder = run_.folder();
    checkpoint::Io& io = run_.io();
    if (folder.has(kPlain)) checkpoint::remove_file(folder, kPlain);
    return seconds_of([&, this] {
      checkpoint::File file = folder.create(kPlain, io);
      file.write(values_.data(), num_bytes(), 0, io);
      file.sync(io);
      folder.sync(io);
    });
  }

  double read_plain() {
    const checkpoint::File file = run_.folder().open(kPlain);
    forget_pages(file);
    return seconds_of([&, this] { file.read(values_.data(), num_bytes(), 0); });
  }

 private:
  const checkpoint::OpenRun run_;
  const int64_t tensor_numel_;
  std::vector<float> values_;
  std::vector<checkpoint::Slice> slices_;
  std::string saved_;  // the checkpoint's folder
  int64_t step_ = 0;
};

}  // namespace

std::unique_ptr<checkpoint::OwnFolder> make_bench_folder(const std::string& above) try {
  return std::make_unique<checkpoint::OwnFolder>(above,
                                                 checkpoint::temporary_name("bench"));
} catch (const checkpoint::CheckpointError& error) {
  throw Error(ExitCode::kCheckpoint, error.problem(), above,
              "--out DIR: a folder that is there and may be written");
}

std::vector<Row> bench_checkpoint(const BenchOptions& options) {
  const std::string& out = options.settings.out;
  const auto folder = make_bench_folder(out.empty() ? "." : out);
  State state(folder->path(), options.size);
  const std::vector<Seconds> seconds =
      alternate({[&] { return state.write_plain(); }, [&] { return state.save(); },
                 [&] { return state.read_plain(); }, [&] { return state.load(); }},
                options.rounds);
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, const Seconds& measured,
                       const std::string& limit, const Seconds& of_limit) {
    rows.push_back(with_result({{"name", name}, {"bytes", state.num_bytes()}}, measured,
                               state.num_bytes(), limit, of_limit));
  };
  add("save", seconds[1], "plain file written", seconds[0]);
  add("load", seconds[3], "plain file read", seconds[2]);
  return rows;
}

}  // namespace zero::launcher
