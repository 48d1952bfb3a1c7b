#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "checkpoint/file.h"
#include "checkpoint/lock_holder.h"

namespace zero::checkpoint {

constexpr int64_t kHeartbeatTimeoutSeconds = 120;

// Keep a second job out of a run's folder; rank 0 holds it from start to end.
//
// A file run.lock says who holds it. A lock is taken over when its process is known to be
// gone, when it belongs to our job and is not known to be alive (a requeued job), or when
// its heartbeat is kHeartbeatTimeoutSeconds old. Otherwise CheckpointError names host and
// process and says what to do. Destruction gives the lock back.
class RunLock {
 public:
  // `job_id` is the scheduler's (SLURM_JOB_ID, ...), empty when there is none. The run's
  // folder exists.
  RunLock(const std::string& run, const std::string& job_id, Io& io = system_io());
  RunLock(const std::string& run, const LockHolder& self, Io& io = system_io());
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Say "still here"; call it several times per timeout. Throws when the lock was taken
  // over by another job: then stop writing.
  void beat();
  void beat(int64_t now_seconds);

 private:
  bool try_create();
  void take_over();
  bool is_ours() const;

  Folder folder_;
  LockHolder self_;
  Io& io_;
  std::unique_ptr<File> file_;
};

}  // namespace zero::checkpoint
