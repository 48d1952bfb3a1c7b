#include "engine/comm/nccl/nccl_communicator.h"

#include <chrono>
#include <cmath>
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
constexpr auto kLongWait = std::chrono::seconds(1);  // for work on the GPU
constexpr int kFinishLooks = 40;                     // for ranks that left without a word
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
  const auto begin = std::chrono::steady_clock::now();
  int64_t told[3];  // has one failed, has one not finished, is it late
  do {
    std::this_thread::sleep_for(kBetweenJoins);
    if (result == ncclInProgress) result = state();
    told[0] = !is_under_way(result);
    told[1] = result == ncclInProgress;
    told[2] = std::chrono::steady_clock::now() - begin > owner_.join_within;
    ranks.all_reduce(std::span(told), ReduceOp::kMax, "joining NCCL");
  } while (told[0] == 0 && told[1] == 1 && told[2] == 0);
  Agreement(ranks, "joining NCCL").run([&] {
    const std::string doing = "joining the other ranks' GPUs";
    check(result, doing);
    if (told[0] == 0 && told[1] == 1)
      throw Error(ExitCode::kEnvironment,
                  "NCCL: the ranks have not found each other in " +
                      std::to_string(std::lround(owner_.join_within.count())) + " s",
                  doing,
                  "NCCL_SOCKET_IFNAME names the network between hosts; NCCL_DEBUG=WARN "
                  "tells more");
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

// The watch on ranks that wait sees those that wait for a GPU, too.
void NcclCommunicator::note_wait() {
  std::optional<Queued> oldest;
  {
    const std::lock_guard lock(mutex_);
    forget_done();
    if (!queued_.empty()) oldest = queued_.front();
  }
  const auto now = std::chrono::steady_clock::now();
  if (!oldest || oldest->done != waits_for_) {
    waiting_.reset();
    waits_for_ = oldest ? oldest->done : nullptr;
    waits_since_ = now;
  } else if (!waiting_ && now - waits_since_ > kLongWait) {
    waiting_.emplace(oldest->doing, std::string_view(), /*waits=*/true);
  }
}

// Has the communicator ended?
bool NcclCommunicator::look() {
  note_wait();
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
    waiting_.reset();
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
