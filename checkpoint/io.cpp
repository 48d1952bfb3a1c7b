#include "checkpoint/io.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

namespace zero::checkpoint {

int Io::create(int folder, const char* name) {
  return ::openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
}

ssize_t Io::pwrite(int file, const void* data, size_t bytes, off_t offset) {
  return ::pwrite(file, data, bytes, offset);
}

int Io::fsync(int file_or_folder) { return ::fsync(file_or_folder); }

int Io::mkdir(int folder, const char* name) { return ::mkdirat(folder, name, 0755); }

int Io::link(int folder, const char* from, const char* to) {
  return ::linkat(folder, from, folder, to, 0);
}

int Io::rename(int folder, const char* from, const char* to) {
  return ::renameat(folder, from, folder, to);
}

int Io::exchange(int folder, const char* one, const char* other) {
  return ::renameat2(folder, one, folder, other, RENAME_EXCHANGE);
}

int Io::unlink(int folder, const char* name, bool is_folder) {
  return ::unlinkat(folder, name, is_folder ? AT_REMOVEDIR : 0);
}

Io& system_io() {
  static Io io;
  return io;
}

}  // namespace zero::checkpoint
