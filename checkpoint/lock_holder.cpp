#include "checkpoint/lock_holder.h"

#include <unistd.h>

#include <chrono>
#include <fstream>

#include "base/processes.h"
#include "checkpoint/error.h"
#include "checkpoint/json.h"

namespace zero::checkpoint {
namespace {

std::string first_line_of(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

std::string own_pid_namespace() {
  char target[64] = {};
  const ssize_t length = ::readlink("/proc/self/ns/pid", target, sizeof(target) - 1);
  return length > 0 ? target : "";
}

// 0: there is no such process, or a dead one.
int64_t start_of(int64_t pid) {
  const ProcessState state = state_of_process(pid);
  return state.is_dead() ? 0 : state.start_time;
}

}  // namespace

int64_t seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

LockHolder this_process(const std::string& job_id) {
  return {.host = host_name(),
          .machine_id = first_line_of("/etc/machine-id"),
          .boot_id = first_line_of("/proc/sys/kernel/random/boot_id"),
          .pid_namespace = own_pid_namespace(),
          .pid = ::getpid(),
          .pid_start = start_of(::getpid()),
          .job_id = job_id,
          .heartbeat = seconds_since_1970()};
}

// A host's or job's name that is no UTF-8 is written with other characters.
std::string to_text(const LockHolder& holder) {
  return nlohmann::ordered_json{{"host", holder.host},
                                {"machine_id", holder.machine_id},
                                {"boot_id", holder.boot_id},
                                {"pid_namespace", holder.pid_namespace},
                                {"pid", holder.pid},
                                {"pid_start", holder.pid_start},
                                {"job_id", holder.job_id},
                                {"heartbeat", holder.heartbeat},
                                {"holds_file", holder.holds_file}}
             .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

std::optional<LockHolder> parse_holder(std::string_view text) {
  try {
    const auto json = parse_strictly(text, "lock");
    Fields fields(json, "lock", "");
    return LockHolder{.host = fields.text("host"),
                      .machine_id = fields.text("machine_id"),
                      .boot_id = fields.text("boot_id"),
                      .pid_namespace = fields.text("pid_namespace"),
                      .pid = fields.integer("pid"),
                      .pid_start = fields.integer("pid_start"),
                      .job_id = fields.text("job_id"),
                      .heartbeat = fields.integer("heartbeat"),
                      .holds_file = fields.boolean("holds_file")};
  } catch (const CheckpointError&) {
    return std::nullopt;
  }
}

Life life_of(const LockHolder& holder, const LockHolder& self) {
  if (holder.host != self.host) return Life::kUnknown;
  if (holder.boot_id != self.boot_id) {
    const bool is_same_machine =
        !self.machine_id.empty() && holder.machine_id == self.machine_id;
    return is_same_machine ? Life::kGone : Life::kUnknown;
  }
  if (holder.pid_namespace != self.pid_namespace) return Life::kUnknown;
  const int64_t start = start_of(holder.pid);
  return start != 0 && start == holder.pid_start ? Life::kAlive : Life::kGone;
}

}  // namespace zero::checkpoint
