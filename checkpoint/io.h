#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace zero::checkpoint {

// The system calls that change what is on the disk, as the kernel offers them: the result
// is negative and errno set on failure; a write may be short.
//
// Everything this room writes goes through them, so that a test can let the k-th one fail
// or be the last one before a crash.
class Io {
 public:
  virtual ~Io() = default;
  // A new file, never an old one; as the umask allows.
  virtual int create(int folder, const char* name) {
    constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    return ::openat(folder, name, kFlags, 0666);
  }
  virtual ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) {
    return ::pwrite(file, data, bytes, offset);
  }
  virtual int fsync(int file_or_folder) { return ::fsync(file_or_folder); }
  virtual int mkdir(int folder, const char* name) {
    return ::mkdirat(folder, name, 0777);
  }
  // Never over an old one.
  virtual int link(int folder, const char* from, const char* to) {
    return ::linkat(folder, from, folder, to, 0);
  }
  virtual int rename(int folder, const char* from, const char* to) {
    return ::renameat(folder, from, folder, to);
  }
  // Atomically.
  virtual int exchange(int folder, const char* one, const char* other) {
    return ::renameat2(folder, one, folder, other, RENAME_EXCHANGE);
  }
  virtual int unlink(int folder, const char* name, bool is_folder) {
    return ::unlinkat(folder, name, is_folder ? AT_REMOVEDIR : 0);
  }
};

// The real ones.
inline Io& system_io() {
  static Io io;
  return io;
}

// Whom to tell of each MiB of values that is read, hashed or written: a watchdog may ask
// whether this process still moves, and people how far it is. (The lock's heartbeat is no
// work.) One for the process; null: nobody.
inline std::atomic<void (*)(int64_t bytes)> work_listener{nullptr};

inline void set_work_listener(void (*listener)(int64_t bytes)) {
  work_listener = listener;
}

// A piece was done.
inline void note_work(int64_t bytes) {
  if (const auto tell = work_listener.load(std::memory_order_relaxed)) tell(bytes);
}

}  // namespace zero::checkpoint
