#pragma once
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "engine/device/device.h"
#include "engine/watch/activity.h"

namespace zero {

class Ranks;

// NCCL's calls return at once: one that has not failed may say that it is not done yet.
inline bool is_under_way(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress;
}

// One communicator of NCCL, which never keeps anybody waiting for a rank that is gone.
//
// NCCL's calls return at once and are asked until they have queued their work; a thread
// of this asks for what went wrong behind them. The first failure ends the communicator:
// NCCL's work on the GPU stops, and later calls throw it again.
class NcclCommunicator : NoCopy {
 public:
  // What a communicator needs of its owner, from the thread.
  struct Owner {
    std::function<void(std::exception_ptr)> failed;  // told once
    // Why another rank is gone, "" while all are there. Work that needs it will not end.
    std::function<std::string()> reason_gone;
    // Until ranks that have not found each other give up.
    std::chrono::duration<double> join_within{600};
  };

  // Collective: every rank throws if one fails, or has not come in time.
  NcclCommunicator(Ranks& ranks, Owner owner);
  ~NcclCommunicator();  // what is queued stops

  // Queue work of NCCL, which `doing` names in errors.
  void call(const std::string& doing,
            const std::function<ncclResult_t(ncclComm_t)>& queue);
  // What was queued by `doing` is done when this event is reached.
  void watch(const std::string& doing, const Event& done);
  // From any thread. The first reason is what everybody is told.
  void end(std::exception_ptr reason) noexcept;

 private:
  struct Queued {
    std::string doing;
    std::shared_ptr<const Point> done;
  };

  void join(Ranks& ranks);
  ncclResult_t state();
  void wait_until_queued(const std::string& doing, ncclResult_t result);
  bool finish();
  void keep_watch(std::stop_token stop);
  void abort();
  bool look();
  std::string oldest_call();
  void note_wait();
  void forget_done();

  const int rank_;
  const Owner owner_;
  mutable std::mutex mutex_;
  std::condition_variable_any ended_;
  ncclComm_t comm_ = nullptr;   // guarded by mutex_
  bool is_over_ = false;        // guarded by mutex_; NCCL touches nothing any more
  std::exception_ptr failure_;  // guarded by mutex_
  std::deque<Queued> queued_;   // guarded by mutex_; in the order of the calls
  std::string now_queued_;      // guarded by mutex_; "": nothing is being queued
  int num_looks_ = 0;           // of the thread: at work that needs a rank that is gone
  // Of the thread: the oldest work that is not done, since when, and that all wait for it
  // once that is long.
  std::shared_ptr<const Point> waits_for_;
  std::chrono::steady_clock::time_point waits_since_;
  std::optional<Activity::Stretch> waiting_;
  std::jthread watch_;
};

}  // namespace zero
