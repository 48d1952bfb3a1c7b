#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "checkpoint/commit.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "launcher/bench/benches.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using checkpoint::Kind;

constexpr int64_t kNumTensors = 12;  // of each kind, as a block has

// A folder that goes away with this object.
class OwnFolder {
 public:
  explicit OwnFolder(const std::string& above) : path_(above + "/zero_bench_XXXXXX") {
    if (!mkdtemp(path_.data())) {
      throw Error(ExitCode::kCheckpoint,
                  std::string("cannot make a folder: ") + std::strerror(errno), above,
                  "--out DIR: a folder that is there and may be written");
    }
  }
  ~OwnFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// What is read next comes from the disk, as far as the system listens.
void forget_pages(const checkpoint::Folder& folder) {
  for (const std::string& name : folder.names())
    posix_fadvise(folder.open(name).descriptor(), 0, 0, POSIX_FADV_DONTNEED);
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
    if (!saved_.empty()) std::filesystem::remove_all(saved_);
    ++step_;
    return seconds_of([this] {
      const std::string temporary = checkpoint::prepare(run_, step_);
      const auto report = checkpoint::write_shard(temporary, 0, 1, slices_);
      saved_ = checkpoint::commit(run_, temporary, {report}, {.step = step_});
    });
  }

  double load() {
    forget_pages(checkpoint::Folder(saved_));
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
    std::filesystem::remove_all(plain_path());
    std::filesystem::create_directory(plain_path());
    return seconds_of([this] {
      checkpoint::Io& io = checkpoint::system_io();
      const checkpoint::Folder folder(plain_path());
      checkpoint::File file = folder.create("plain", io);
      file.write(values_.data(), num_bytes(), 0, io);
      file.sync(io);
      folder.sync(io);
    });
  }

  double read_plain() {
    const checkpoint::Folder folder(plain_path());
    forget_pages(folder);
    return seconds_of(
        [&, this] { folder.open("plain").read(values_.data(), num_bytes(), 0); });
  }

 private:
  std::string plain_path() const { return run_.path() + "/plain"; }

  const checkpoint::OpenRun run_;
  const int64_t tensor_numel_;
  std::vector<float> values_;
  std::vector<checkpoint::Slice> slices_;
  std::string saved_;  // the checkpoint's folder
  int64_t step_ = 0;
};

}  // namespace

std::vector<Row> bench_checkpoint(const BenchOptions& options) {
  const std::string& out = options.settings.out;
  const OwnFolder folder(out.empty() ? "." : out);
  State state(folder.path(), options.size);
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
