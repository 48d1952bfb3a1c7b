#include "engine/comm/nccl/nccl_communicator.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include "engine/comm/agreement.h"
#include "engine/comm/collectives.h"
#include "engine/watch/activity.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(50);
constexpr int kPatience = 20;  // looks at work that needs a rank that is gone
constexpr auto kBetweenQuestions = std::chrono::microseconds(20);
constexpr auto kBetweenJoins = std::chrono::milliseconds(5);
constexpr int kFinishLooks = 40;  // for ranks that left without a word
constexpr int kFirstToShare = NCCL_VERSION(2, 30, 0);

constexpr char kCure[] =
    "NCCL_DEBUG=WARN tells more; a rank that is gone has its own error above";

Error nccl_error(ncclResult_t result, const std::string& details,
                 const std::string& doing) {
  std::string text = std::string("NCCL: ") + ncclGetErrorString(result);
  if (!details.empty()) text += " (" + details + ")";
  return Error(ExitCode::kEnvironment, text, doing, kCure);
}

void check(ncclResult_t result, const std::string& doing) {
  if (!is_under_way(result)) throw nccl_error(result, ncclGetLastError(nullptr), doing);
}

// What names the communicator, made by the first rank.
ncclUniqueId agree_on_id(Ranks& ranks) {
  ncclUniqueId id{};
  Agreement(ranks, "NCCL").run([&] {
    if (ranks.rank() == 0) check(ncclGetUniqueId(&id), "beginning to use NCCL");
  });
  ranks.broadcast(id.internal, sizeof id.internal, 0, "id of NCCL");
  return id;
}

}  // namespace

NcclCommunicator::NcclCommunicator(Ranks& ranks, Owner owner)
    : rank_(ranks.rank()), owner_(std::move(owner)) {
  try {
    join(ranks);
  } catch (...) {
    abort();
    throw;
  }
  watch_ = std::jthread([this](std::stop_token stop) { keep_watch(std::move(stop)); });
}

// Ranks tell each other how far they are, since NCCL would wait for one that failed.
void NcclCommunicator::join(Ranks& ranks) {
  const ncclUniqueId id = agree_on_id(ranks);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclResult_t result =
      ncclCommInitRankConfig(&comm_, ranks.size(), id, ranks.rank(), &config);
  int64_t told[2];  // has one failed, has one not finished
  do {
    std::this_thread::sleep_for(kBetweenJoins);
    if (result == ncclInProgress) result = state();
    told[0] = !is_under_way(result);
    told[1] = result == ncclInProgress;
    ranks.all_reduce(std::span(told), ReduceOp::kMax, "joining NCCL");
  } while (told[0] == 0 && told[1] == 1);
  Agreement(ranks, "joining NCCL").run([&] {
    check(result, "joining the other ranks' GPUs");
  });
}

NcclCommunicator::~NcclCommunicator() {
  if (watch_.joinable()) {
    watch_.request_stop();
    watch_.join();
  }
  if (!finish()) abort();
}

// What other ranks still fetch of this one's last calls is let through.
bool NcclCommunicator::finish() {
  if (!comm_ || failure_ || !oldest_call().empty()) return false;
  ncclResult_t result = ncclCommFinalize(comm_);
  for (int i = 0; result == ncclInProgress && i < kFinishLooks; ++i) {
    std::this_thread::sleep_for(kBetweenLooks);
    result = state();
  }
  if (result != ncclSuccess) return false;
  ncclCommDestroy(std::exchange(comm_, nullptr));
  return true;
}

void NcclCommunicator::call(const std::string& doing,
                            const std::function<ncclResult_t(ncclComm_t)>& queue) {
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    now_queued_ = doing;
    result = queue(comm_);
  }
  const Activity::Stretch waiting(doing, {}, /*waits=*/true);
  try {
    wait_until_queued(doing, result);
  } catch (...) {
    end(std::current_exception());
    throw;
  }
  const std::lock_guard lock(mutex_);
  now_queued_.clear();
}

// Until it has queued its work. After a failure that is when it can queue none any more:
// the caller may give up stream and memory.
void NcclCommunicator::wait_until_queued(const std::string& doing, ncclResult_t result) {
  while (result == ncclInProgress) {
    std::this_thread::sleep_for(kBetweenQuestions);
    std::unique_lock lock(mutex_);
    if (failure_) {
      ended_.wait(lock, [&] { return is_over_; });
      std::rethrow_exception(failure_);
    }
    lock.unlock();
    result = state();
  }
  if (result != ncclSuccess) throw nccl_error(result, ncclGetLastError(nullptr), doing);
}

// Of what was queued last, or of what went wrong.
ncclResult_t NcclCommunicator::state() {
  const std::lock_guard lock(mutex_);
  if (!comm_) return ncclInProgress;  // ended meanwhile
  ncclResult_t state = ncclSuccess;
  const ncclResult_t result = ncclCommGetAsyncError(comm_, &state);
  return result == ncclSuccess ? state : result;
}

void NcclCommunicator::watch(const std::string& doing, const Event& done) {
  const std::lock_guard lock(mutex_);
  forget_done();
  queued_.push_back({doing, done.latest()});
}

void NcclCommunicator::forget_done() {
  while (!queued_.empty() && queued_.front().done->is_reached()) queued_.pop_front();
}

void NcclCommunicator::end(std::exception_ptr reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = std::move(reason);
  }
  ended_.notify_all();
}

// "": there is none.
std::string NcclCommunicator::oldest_call() {
  const std::lock_guard lock(mutex_);
  forget_done();
  return queued_.empty() ? now_queued_ : queued_.front().doing;
}

// Has the communicator ended?
bool NcclCommunicator::look() {
  const ncclResult_t now = state();
  const std::string doing = oldest_call();
  if (now != ncclSuccess && now != ncclInProgress) {
    const std::string during = Activity::here().state().where;
    end(std::make_exception_ptr(nccl_error(
        now, "rank " + std::to_string(rank_) + (during.empty() ? "" : ", " + during),
        doing.empty() ? "between two calls" : doing)));
  }
  // Who left after its last call has done its part of ours: that soon ends.
  const std::string gone = doing.empty() ? "" : owner_.reason_gone();
  num_looks_ = gone.empty() ? 0 : num_looks_ + 1;
  if (num_looks_ > kPatience) {
    end(std::make_exception_ptr(Error(ExitCode::kEnvironment, gone, doing,
                                      "the first error of that rank tells why")));
  }
  const std::lock_guard lock(mutex_);
  return failure_ != nullptr;
}

void NcclCommunicator::keep_watch(std::stop_token stop) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      ended_.wait_for(lock, stop, kBetweenLooks, [&] { return failure_ != nullptr; });
    }
    bool has_ended = true;
    try {
      has_ended = look();
    } catch (...) {
      end(std::current_exception());
    }
    if (!has_ended) continue;
    owner_.failed(failure_);  // which changes no more
    return abort();
  }
}

// Work that waits on the GPU for other ranks ends. NCCL waits for what is queued before
// that, which threads of the host may have to let go: they find the lock free.
void NcclCommunicator::abort() {
  ncclComm_t comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    comm = std::exchange(comm_, nullptr);
  }
  if (comm) ncclCommAbort(comm);
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ended_.notify_all();
}

}  // namespace zero

bool zero_nccl_shares_gpus() {
  const char* const allowed = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  int version = 0;
  return allowed && std::strcmp(allowed, "1") == 0 &&
         ncclGetVersion(&version) == ncclSuccess && version >= zero::kFirstToShare;
}
