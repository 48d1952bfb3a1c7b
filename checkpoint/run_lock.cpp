#include "checkpoint/run_lock.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "checkpoint/error.h"
#include "checkpoint/format.h"

namespace zero::checkpoint {
namespace {

constexpr int64_t kMaxLockBytes = 64 << 10;
constexpr int kAttempts = 10;

// A lock that cannot be read may be half written just now: then its age speaks.
LockHolder read_holder(const Folder& folder, const std::string& name) {
  const File file = folder.open(name);
  std::string text(static_cast<size_t>(std::min(file.size_bytes(), kMaxLockBytes)), '\0');
  file.read(text.data(), text.size(), 0);
  if (const auto holder = parse_holder(text)) return *holder;
  struct stat status {};
  if (::fstat(file.descriptor(), &status) != 0)
    throw_errno(file.path(), "examine", errno);
  LockHolder unknown;
  unknown.host = "an unknown host (the lock is damaged)";
  unknown.heartbeat = status.st_mtim.tv_sec;
  return unknown;
}

bool may_take_over(const LockHolder& holder, const LockHolder& self) {
  const Life life = life_of(holder, self);
  const bool is_same_job = !self.job_id.empty() && holder.job_id == self.job_id;
  const bool is_silent = self.heartbeat - holder.heartbeat >= kHeartbeatTimeoutSeconds;
  return life == Life::kGone || is_silent || (is_same_job && life == Life::kUnknown);
}

[[noreturn]] void refuse(const std::string& path, const LockHolder& holder,
                         const LockHolder& self) {
  const std::string job =
      holder.job_id.empty() ? "" : ", job " + printable(holder.job_id);
  const int64_t age = self.heartbeat - holder.heartbeat;
  throw CheckpointError(
      path, "",
      "another job works in this folder: process " + std::to_string(holder.pid) + " on " +
          printable(holder.host) + job + ", heard of " + std::to_string(age) +
          " seconds ago",
      "stop it, or choose another folder; if it is dead, wait until it was silent for " +
          std::to_string(kHeartbeatTimeoutSeconds) + " seconds, or remove this file");
}

}  // namespace

RunLock::RunLock(const std::string& run, const std::string& job_id, Io& io)
    : RunLock(run, this_process(job_id), io) {}

RunLock::RunLock(const std::string& run, const LockHolder& self, Io& io)
    : folder_(run), self_(self), io_(io) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (try_create()) return;
    take_over();
  }
  throw CheckpointError(folder_.path_of(kLockFile), "",
                        "other jobs keep taking the lock at the same moment");
}

RunLock::~RunLock() {
  if (is_ours()) io_.unlink(folder_.descriptor(), kLockFile, false);
}

// The file is created exclusively, so of two jobs one gets it.
bool RunLock::try_create() {
  const int descriptor = io_.create(folder_.descriptor(), kLockFile);
  if (descriptor < 0 && errno == EEXIST) return false;
  if (descriptor < 0) throw_errno(folder_.path_of(kLockFile), "create", errno);
  file_ = std::make_unique<File>(descriptor, folder_.path_of(kLockFile));
  try {
    const std::string text = to_text(self_);
    file_->write(text.data(), text.size(), 0, io_);
    file_->sync(io_);
  } catch (const CheckpointError&) {
    io_.unlink(folder_.descriptor(), kLockFile, false);
    throw;
  }
  return true;
}

// Move a dead lock aside. Another job may have done so just before us, and then what we
// moved is its new lock: so look again at what was moved, and put a live one back.
void RunLock::take_over() {
  const std::string aside = temporary_name("lock");
  try {
    const LockHolder holder = read_holder(folder_, kLockFile);
    if (!may_take_over(holder, self_)) refuse(folder_.path_of(kLockFile), holder, self_);
  } catch (const CheckpointError&) {
    if (!folder_.has(kLockFile)) return;  // it was given back meanwhile
    throw;
  }
  if (io_.rename(folder_.descriptor(), kLockFile, aside.c_str()) != 0) {
    if (errno == ENOENT) return;
    throw_errno(folder_.path_of(kLockFile), "take over the lock", errno);
  }
  const LockHolder moved = read_holder(folder_, aside);
  if (!may_take_over(moved, self_)) {
    io_.rename(folder_.descriptor(), aside.c_str(), kLockFile);
    refuse(folder_.path_of(kLockFile), moved, self_);
  }
  io_.unlink(folder_.descriptor(), aside.c_str(), false);
}

// The name still stands for the file that we created.
bool RunLock::is_ours() const {
  struct stat named {};
  struct stat held {};
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW;
  return file_ != nullptr &&
         ::fstatat(folder_.descriptor(), kLockFile, &named, kFlags) == 0 &&
         ::fstat(file_->descriptor(), &held) == 0 && named.st_dev == held.st_dev &&
         named.st_ino == held.st_ino;
}

void RunLock::beat() { beat(this_process("").heartbeat); }

// Written in place: if the lock was moved away meanwhile, nobody else's is touched. The
// text keeps its length, as the digits of the time do.
void RunLock::beat(int64_t now_seconds) {
  if (!is_ours()) {
    throw CheckpointError(
        folder_.path_of(kLockFile), "", "the lock of this run was taken over or removed",
        "this job was silent for too long; let only one job write here");
  }
  self_.heartbeat = now_seconds;
  const std::string text = to_text(self_);
  file_->write(text.data(), text.size(), 0, io_);
}

}  // namespace zero::checkpoint
