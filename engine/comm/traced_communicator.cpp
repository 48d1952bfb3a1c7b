#include "engine/comm/traced_communicator.h"

#include <fstream>
#include <mutex>

#include "engine/comm/call.h"
#include "engine/comm/communicator.h"
#include "engine/errors.h"

namespace zero {

namespace {

// A file that several communicators write to, each line whole.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path) : path_(path), file_(path) {
    require_good();
  }

  void write(const std::string& line) {
    std::lock_guard lock(mutex_);
    // Flushed: the line before a crash is the one that matters.
    file_ << line << std::endl;
    require_good();
  }

 private:
  void require_good() const {
    if (file_) return;
    throw Error(ExitCode::kEnvironment, "cannot write the trace of collectives", path_,
                "name a file in a folder that exists, on a disk that is not full");
  }

  std::string path_;
  std::mutex mutex_;
  std::ofstream file_;
};

class TracedCommunicator final : public Communicator {
 public:
  TracedCommunicator(std::unique_ptr<Communicator> traced,
                     std::shared_ptr<TraceFile> file)
      : traced_(std::move(traced)), file_(std::move(file)) {}

  int rank() const override { return traced_->rank(); }
  int size() const override { return traced_->size(); }

  void all_gather(const void* shard, void* full, int64_t shard_bytes,
                  const std::string& tag, Stream& stream) override {
    trace(Operation::kAllGather, tag, shard_bytes);
    traced_->all_gather(shard, full, shard_bytes, tag, stream);
  }
  void reduce_scatter(const void* full, float* shard, int64_t shard_numel, WireType type,
                      const std::string& tag, Stream& stream) override {
    trace(Operation::kReduceScatter, tag,
          shard_numel * (type == WireType::kFloat ? 4 : 2));
    traced_->reduce_scatter(full, shard, shard_numel, type, tag, stream);
  }
  void all_reduce(std::span<int64_t> values, ReduceOp op, const std::string& tag,
                  Stream& stream) override {
    trace(Operation::kAllReduce, tag, values.size_bytes());
    traced_->all_reduce(values, op, tag, stream);
  }
  void all_reduce(std::span<double> values, ReduceOp op, const std::string& tag,
                  Stream& stream) override {
    trace(Operation::kAllReduce, tag, values.size_bytes());
    traced_->all_reduce(values, op, tag, stream);
  }
  void broadcast(void* data, int64_t bytes, int root, const std::string& tag,
                 Stream& stream) override {
    trace(Operation::kBroadcast, tag, bytes);
    traced_->broadcast(data, bytes, root, tag, stream);
  }
  void barrier(const std::string& tag, Stream& stream) override {
    trace(Operation::kBarrier, tag, 0);
    traced_->barrier(tag, stream);
  }
  std::unique_ptr<Communicator> split(int color) override {
    return std::make_unique<TracedCommunicator>(traced_->split(color), file_);
  }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<TracedCommunicator>(traced_->duplicate(), file_);
  }

 private:
  void trace(Operation operation, const std::string& tag, int64_t bytes) {
    file_->write(std::to_string(num_calls_++) + " " + name_of(operation) + " " + tag +
                 " " + std::to_string(bytes));
  }

  std::unique_ptr<Communicator> traced_;
  std::shared_ptr<TraceFile> file_;
  int64_t num_calls_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_traced_communicator(
    std::unique_ptr<Communicator> traced, const std::string& path) {
  return std::make_unique<TracedCommunicator>(std::move(traced),
                                              std::make_shared<TraceFile>(path));
}

}  // namespace zero
