#include "checkpoint/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include "base/files.h"
#include "base/processes.h"
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "checkpoint/json.h"
#include "checkpoint/own_files.h"

namespace zero::checkpoint {
namespace {

constexpr int64_t kMaxLockBytes = 64 << 10;
constexpr int kAttempts = 10;

struct Found {
  LockHolder holder;
  Life life = Life::kUnknown;
};

[[noreturn]] void refuse_foreign(const Folder& folder) {
  throw CheckpointError(folder.path_of(kLockFile), "",
                        "is no lock that zero has made, and stays as it is",
                        "if no other job works in this folder, move it away");
}

// The kernel of the holder's machine knows whether its process, which has locked the
// file, is still there.
Life life_by_kernel(const File& file) {
  if (::flock(file.descriptor(), LOCK_SH | LOCK_NB) == 0) return Life::kGone;
  return errno == EWOULDBLOCK ? Life::kAlive : Life::kUnknown;
}

// Ours are whole from the start: what cannot be read is somebody else's.
Found read_lock(const Folder& folder, const std::string& name, const LockHolder& self) {
  if (folder.has(name) && !folder.has_file(name)) refuse_foreign(folder);
  const File file = folder.open(name);
  std::string text(static_cast<size_t>(std::min(file.size_bytes(), kMaxLockBytes)), '\0');
  file.read(text.data(), text.size(), 0);
  const auto holder = parse_holder(text);
  if (!holder) {
    LockHolder unknown;
    unknown.host = "an unknown host (the lock is damaged)";
    unknown.heartbeat = self.heartbeat;
    return {unknown, Life::kUnknown};
  }
  Life life = life_of(*holder, self);
  // Another container of this machine.
  const bool can_ask =
      life == Life::kUnknown && holder->holds_file && holder->boot_id == self.boot_id;
  if (can_ask) life = life_by_kernel(file);
  return {*holder, life};
}

bool may_take_over(const Found& found, const LockHolder& self, TakeOver take_over) {
  const bool is_same_job = !self.job_id.empty() && found.holder.job_id == self.job_id;
  return found.life == Life::kGone || (found.life == Life::kUnknown &&
                                       (is_same_job || take_over == TakeOver::kAlways));
}

bool links_are_unknown(int error) {
  return error == EPERM || error == ENOSYS || error == EOPNOTSUPP || error == EMLINK;
}

std::string own_pid_namespace() {
  std::error_code none;  // the text is empty then
  return std::filesystem::read_symlink("/proc/self/ns/pid", none).string();
}

// 0: there is no such process, or a dead one.
int64_t start_of(int64_t pid) {
  const ProcessState state = state_of_process(pid);
  return state.is_dead() ? 0 : state.start_time;
}

}  // namespace

RunLock::RunLock(const std::string& run, const std::string& job_id, TakeOver take_over,
                 Io& io)
    : RunLock(run, this_process(job_id), take_over, io) {}

RunLock::RunLock(const std::string& run, const LockHolder& self, TakeOver take_over,
                 Io& io)
    : OpenRun(run, io), self_(self), take_over_(take_over) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (try_create()) return;
    this->take_over();
  }
  throw CheckpointError(folder().path_of(kLockFile), "",
                        "other jobs keep taking the lock at the same moment");
}

RunLock::~RunLock() {
  if (is_ours()) discard_file(folder(), kLockFile, io());
}

void RunLock::refuse(const LockHolder& holder, Life life) const {
  const std::string job =
      holder.job_id.empty() ? "" : ", job " + printable(holder.job_id);
  const bool is_elsewhere = holder.pid_namespace != self_.pid_namespace;
  const int64_t age = std::max<int64_t>(0, seconds_since_1970() - holder.heartbeat);
  throw CheckpointError(
      folder().path_of(kLockFile), "",
      text_of("another job works in this folder: process ", holder.pid, " on ",
              printable(holder.host), job, ", heard of ", age, " seconds ago"),
      life == Life::kAlive
          ? text_of("it is alive: stop it (kill ", holder.pid,
                    is_elsewhere ? " in its container" : "",
                    "), or choose another folder")
          : "stop it, or choose another folder; if it is gone, the same command with "
            "--take-over");
}

// Written under another name and then given its own, which of two jobs one can do.
bool RunLock::try_create() {
  if (folder().has(kLockFile)) return false;
  const std::string temporary = temporary_name("lock");
  auto file = std::make_unique<File>(folder().create(temporary, io()));
  try {
    self_.holds_file = ::flock(file->descriptor(), LOCK_EX | LOCK_NB) == 0;
    const std::string text = to_text(self_);
    file->write(text.data(), text.size(), 0, io());
    file->sync(io());
    const bool is_named = try_name(temporary);
    if (is_named) file_ = std::move(file);
    return is_named;
  } catch (const CheckpointError&) {
    discard_file(folder(), temporary, io());
    throw;
  }
}

bool RunLock::try_name(const std::string& temporary) {
  const bool is_linked = link_ours(folder(), temporary, kLockFile, io());
  const int error = errno;
  if (!is_linked && links_are_unknown(error)) {
    // The second best: nobody else has asked for the name a moment ago.
    OpenRun::rename(temporary, kLockFile);
    return true;
  }
  discard_file(folder(), temporary, io());
  if (!is_linked && error != EEXIST)
    throw_errno(folder().path_of(kLockFile), "create", error);
  return is_linked;
}

// Move a dead lock aside. Another job may have done so just before us, and then what we
// moved is its new lock: so look again at what was moved, and put a live one back.
void RunLock::take_over() {
  const std::string aside = temporary_name("lock");
  try {
    require_dead(kLockFile);
    rename_ours(folder(), kLockFile, aside, io());
  } catch (const CheckpointError&) {
    if (!folder().has(kLockFile)) return;  // it was given back meanwhile
    throw;
  }
  try {
    require_dead(aside);
  } catch (const CheckpointError&) {
    put_back(aside);
    throw;
  }
  discard_file(folder(), aside, io());
}

void RunLock::require_dead(const std::string& name) const {
  const Found found = read_lock(folder(), name, self_);
  if (!may_take_over(found, self_, take_over_)) refuse(found.holder, found.life);
}

void RunLock::put_back(const std::string& aside) const {
  const bool is_linked = link_ours(folder(), aside, kLockFile, io());
  if (!is_linked && links_are_unknown(errno))
    return rename_ours(folder(), aside, kLockFile, io());
  discard_file(folder(), aside, io());
}

// The name still stands for the file that we created.
bool RunLock::is_ours() const {
  struct stat named {};
  struct stat held {};
  if (file_ == nullptr) return false;
  if (fstatat(folder().descriptor(), kLockFile, &named, AT_SYMLINK_NOFOLLOW) != 0)
    return errno != ENOENT;  // else a file system that does not answer now
  return ::fstat(file_->descriptor(), &held) == 0 && named.st_dev == held.st_dev &&
         named.st_ino == held.st_ino;
}

void RunLock::check() const {
  OpenRun::check();
  if (file_ == nullptr || is_ours()) return;  // null: the lock is being made
  throw CheckpointError(folder().path_of(kLockFile), "",
                        "the lock of this run was taken over or removed",
                        "let only one job write here");
}

// Written in place: if the lock was moved away meanwhile, nobody else's is touched. The
// text keeps its length, as the digits of the time do. It is for people who ask: on a
// disk that is full the next one may come through.
void RunLock::beat() {
  check();
  self_.heartbeat = seconds_since_1970();
  const std::string text = to_text(self_);
  try {
    file_->write(text.data(), text.size(), 0, io());
  } catch (const CheckpointError&) {
  }
}

int64_t seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

LockHolder this_process(const std::string& job_id) {
  return {.host = host_name(),
          .machine_id = read_line("/etc/machine-id"),
          .boot_id = read_line("/proc/sys/kernel/random/boot_id"),
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
