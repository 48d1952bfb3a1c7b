#pragma once
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/run_lock.h"

namespace zero::launcher {

// Hold a run's lock and renew it from a thread, however long a step takes.
//
// The folder exists. Throws CheckpointError when another job holds the lock; destruction
// gives it back.
class Heartbeat {
 public:
  Heartbeat(const std::string& folder, const std::string& job_id,
            checkpoint::TakeOver take_over = checkpoint::TakeOver::kFromTheDead,
            double seconds_between = 20);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // Throws CheckpointError when the lock was lost to another job: then stop writing.
  void check();

  // The folder, to be written to under this lock.
  const checkpoint::OpenRun& run() const { return lock_; }

 private:
  void beat_until_stopped(std::stop_token stop);

  checkpoint::RunLock lock_;
  const double seconds_between_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::exception_ptr failure_;  // guarded by mutex_
  std::jthread thread_;         // last: ends before what it uses
};

// The scheduler's name for this job, the same on all its ranks; empty: there is none.
std::string job_id(const std::vector<std::string>& environment);

}  // namespace zero::launcher
