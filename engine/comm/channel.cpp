#include "engine/comm/channel.h"

#include <filesystem>
#include <fstream>
#include <mutex>

#include "engine/device/host_device.h"
#include "engine/watch/activity.h"
#include "zero/errors.h"

namespace zero {

// A file that several channels write to, each line whole.
class CallTrace {
 public:
  explicit CallTrace(const std::string& path) : path_(path) {
    // A pipe would wait for its reader.
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
      throw Error(ExitCode::kEnvironment, "the trace of collectives needs a regular file",
                  path, "name a new one");
    file_.open(path);
    require_good();
  }

  void write(const RankCall& call, const std::string& tag) {
    std::lock_guard lock(mutex_);
    // Flushed: the line before a crash is the one that matters.
    file_ << call.sequence << ' ' << name_of(call.operation) << ' ' << tag << ' '
          << call.bytes << std::endl;
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

Channel::Channel(std::unique_ptr<Transport> transport, std::shared_ptr<CallTrace> trace)
    : transport_(std::move(transport)), trace_(std::move(trace)) {}

Channel::~Channel() = default;

RankCall Channel::next_call(Operation operation, int variant, int64_t bytes,
                            const std::string& tag) {
  const RankCall call = make_call(num_calls_++, operation, variant, bytes, tag);
  if (trace_) trace_->write(call, tag);
  return call;
}

void Channel::run(const RankCall& call,
                  const std::function<void(Transport&)>& operation) {
  delay_point(std::string("comm.") + name_of(call.operation));
  if (failure_) std::rethrow_exception(failure_);
  const Activity::Waiting waiting(description_of(call));
  try {
    operation(*transport_);
  } catch (const std::exception& error) {
    failure_ = std::current_exception();
    transport_->leave(error.what());
    throw;
  }
}

std::unique_ptr<Channel> Channel::split(Operation operation, int color) {
  const RankCall call = make_call(num_calls_++, operation, 0, 0, "");
  std::unique_ptr<Transport> part;
  run(call, [&](Transport& transport) { part = transport.split(call, color); });
  return std::make_unique<Channel>(std::move(part), trace_);
}

void Channel::close() noexcept { transport_->leave("its communicator was closed"); }

void Channel::trace_to(const std::string& path) {
  trace_ = std::make_shared<CallTrace>(path);
}

}  // namespace zero
