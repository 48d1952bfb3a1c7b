#pragma once

#include <sys/types.h>

#include <cstddef>

namespace zero::checkpoint {

// The system calls that change what is on the disk, as the kernel offers them: the result
// is negative and errno set on failure; a write may be short.
//
// Everything this room writes goes through them, so that a test can let the k-th one fail
// or be the last one before a crash.
class Io {
 public:
  virtual ~Io() = default;
  virtual int create(int folder, const char* name);  // a new file, never an old one
  virtual ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset);
  virtual int fsync(int file_or_folder);
  virtual int mkdir(int folder, const char* name);
  virtual int link(int folder, const char* from, const char* to);  // never an old one
  virtual int rename(int folder, const char* from, const char* to);
  virtual int exchange(int folder, const char* one, const char* other);  // atomically
  virtual int unlink(int folder, const char* name, bool is_folder);
};

// The real ones.
Io& system_io();

}  // namespace zero::checkpoint
