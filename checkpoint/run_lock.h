#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/open_run.h"

namespace zero::checkpoint {

// Who holds a run's lock, so that others can tell whether it still lives.
struct LockHolder {
  std::string host;
  std::string machine_id;     // of the system that is installed there
  std::string boot_id;        // a new one each time the machine starts
  std::string pid_namespace;  // process ids mean nothing in another container
  int64_t pid = 0;
  int64_t pid_start = 0;    // in clock ticks since boot: ids are used again
  std::string job_id;       // the scheduler's; empty: none
  int64_t heartbeat = 0;    // seconds since 1970
  bool holds_file = false;  // it has locked the file itself (flock)
};

int64_t seconds_since_1970();

// This process, now.
LockHolder this_process(const std::string& job_id);

std::string to_text(const LockHolder& holder);
std::optional<LockHolder> parse_holder(std::string_view text);  // nullopt: damaged

enum class Life { kAlive, kGone, kUnknown };

// Whether the holder's process runs, as far as `self` can know: in its own namespace of
// the same boot; and when the machine has started anew since, it does not.
Life life_of(const LockHolder& holder, const LockHolder& self);

// What to do about a lock whose holder may live somewhere else.
enum class TakeOver { kFromTheDead, kAlways };

// A run's folder that one job alone may write to; rank 0 holds it from start to end.
//
// A file run.lock says who holds it; it is there whole or not at all. A lock is taken
// over when its process is known to be gone, or is not known to live and belongs to our
// own requeued job or `take_over` says so. A process that is alive on this machine keeps
// it whatever happens, and so does anything of that name that is no file.
// Otherwise CheckpointError names host and process and what to do. Destruction gives the
// lock back.
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
  void require_dead(const std::string& name) const;
  void put_back(const std::string& aside) const;
  bool is_ours() const;
  [[noreturn]] void refuse(const LockHolder& holder, Life life) const;

  LockHolder self_;
  const TakeOver take_over_;
  std::unique_ptr<File> file_;
};

}  // namespace zero::checkpoint
