#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace zero::checkpoint
