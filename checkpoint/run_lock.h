#pragma once

#include <memory>
#include <string>

#include "checkpoint/lock_holder.h"
#include "checkpoint/open_run.h"

namespace zero::checkpoint {

// What to do about a lock whose holder may live somewhere else.
enum class TakeOver { kFromTheDead, kAlways };

// A run's folder that one job alone may write to; rank 0 holds it from start to end.
//
// A file run.lock says who holds it; it is there whole or not at all. A lock is taken
// over when its process is known to be gone, or is not known to live and belongs to our
// own requeued job or `take_over` says so. A process that is alive on this host keeps it
// whatever happens. Otherwise CheckpointError names host and process and what to do.
// Destruction gives the lock back.
class RunLock : public OpenRun {
 public:
  // `job_id` is the scheduler's (SLURM_JOB_ID, ...), empty when there is none. The run's
  // folder exists.
  RunLock(const std::string& run, const std::string& job_id,
          TakeOver take_over = TakeOver::kFromTheDead, Io& io = system_io());
  RunLock(const std::string& run, const LockHolder& self, TakeOver take_over,
          Io& io = system_io());
  ~RunLock() override;

  // Throws also when the lock was taken over by another job: then stop writing.
  void check() const override;

  // Say "still here", for people who ask when this job was last heard of. Throws as
  // check() does.
  void beat();

 private:
  bool try_create();
  bool try_name(const std::string& temporary);
  void take_over();
  bool is_ours() const;
  [[noreturn]] void refuse(const LockHolder& holder, Life life) const;

  LockHolder self_;
  const TakeOver take_over_;
  std::unique_ptr<File> file_;
};

}  // namespace zero::checkpoint
