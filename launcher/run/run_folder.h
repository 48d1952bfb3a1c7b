#pragma once
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/run_lock.h"

namespace zero {
class Ranks;
}

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

// The folder of a run, as all ranks share it: checkpoints, metrics, the lock that keeps a
// second job out, and the file STOP by which people end the run.
//
// Construction is collective; rank 0 alone writes. It creates the folder, takes the lock,
// removes what a killed job of this run has left half made, checks that a checkpoint
// could be written, and has every rank read back a random word,
// so that a folder which each node has for itself is noticed before the first step.
// Throws CheckpointError or Error(kCheckpoint), on rank 0 or on the rank that cannot see
// the folder.
class RunFolder {
 public:
  RunFolder(const std::string& path, const std::string& job_id,
            checkpoint::TakeOver take_over, Ranks& ranks);

  // --- rank 0
  // Throws CheckpointError when another job has taken the run over, or the folder was
  // moved.
  void check_ours() { lock_->check(); }
  const checkpoint::OpenRun& run() const { return lock_->run(); }
  // Checkpoints of later steps than this one, which were passed over as damaged, get
  // other names; returns those.
  std::vector<std::string> set_aside_behind(int64_t step) const;
  bool has_stop_file() const;
  void remove_stop_file() const;

 private:
  std::unique_ptr<Heartbeat> lock_;  // rank 0 only
};

// Make a run's folder, if it is missing. Throws Error(kCheckpoint) that names `flag`
// where that cannot be.
void create_folder(const std::string& path, const std::string& flag);

// Where a run keeps the small files that came with the weights it started from.
std::string source_folder(const std::string& folder);

// The file that stops the run in `folder`.
std::string stop_file(const std::string& folder);

// Every rank must read in `folder` what rank 0 writes there; collective. `seen_as` is
// where this rank finds the folder.
void check_shared(const std::string& folder, const std::string& seen_as, Ranks& ranks);

}  // namespace zero::launcher
