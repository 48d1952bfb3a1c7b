#include "engine/comm/channel.h"

#include <cerrno>
#include <cstdio>
#include <mutex>

#include "engine/device/host_device.h"
#include "engine/watch/activity.h"
#include "zero/errors.h"

namespace zero {

// A new file that several channels write to, each line whole.
class CallTrace {
 public:
  explicit CallTrace(const std::string& path)
      : path_(path), file_(std::fopen(path.c_str(), "wxe"), &std::fclose) {
    if (!file_ && errno == EEXIST)
      throw Error(ExitCode::kEnvironment, "something of that name is there, and it stays",
                  path, "name a new file for the trace of collectives");
    require(file_ != nullptr);
  }

  void write(const RankCall& call, const std::string& tag) {
    std::lock_guard lock(mutex_);
    // Flushed: the line before a crash is the one that matters.
    std::fprintf(file_.get(), "%llu %s %s %lld\n",
                 static_cast<unsigned long long>(call.sequence), name_of(call.operation),
                 tag.c_str(), static_cast<long long>(call.bytes));
    require(std::fflush(file_.get()) == 0);
  }

 private:
  void require(bool is_good) const {
    if (is_good) return;
    throw Error(ExitCode::kEnvironment, "cannot write the trace of collectives", path_,
                "name a file in a folder that exists, on a disk that is not full");
  }

  std::string path_;
  std::mutex mutex_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
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
  const Activity::Stretch waiting(description_of(call), {}, /*waits=*/true);
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
