// Stand before the C library's calls on files (LD_PRELOAD), and let one of them fail or
// be the last, as fault_plan.h tells.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "tests/crash/fault_plan.h"

namespace {

using namespace zero::crash;

std::string target_of(const std::string& link) {
  char target[PATH_MAX];
  const ssize_t length = readlink(link.c_str(), target, sizeof target);
  return length > 0 ? std::string(target, length) : "";
}

std::string path_of(int file) {
  return target_of("/proc/self/fd/" + std::to_string(file));
}

std::string path_of(int folder, const char* name) {
  if (name[0] == '/') return name;
  const std::string above =
      folder == AT_FDCWD ? target_of("/proc/self/cwd") : path_of(folder);
  return above + '/' + name;
}

// Of two names, the one that lies in the folder.
std::string path_of(int folder, const char* name, int other_folder, const char* other) {
  const std::string path = path_of(folder, name);
  return is_in_folder(path) ? path : path_of(other_folder, other);
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool fails(const char* name, Class what, const std::string& path) {
  return count_call(name, what, path) != Fate::kPass;
}

Class class_of(int flags) {
  return (flags & (O_CREAT | O_TRUNC)) != 0 ? Class::kGrows : Class::kLooks;
}

// The third argument of open(), which is there only when a file may be made.
mode_t mode_in(int flags, va_list arguments) {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? va_arg(arguments, mode_t) : 0;
}

int do_openat(const char* call, int folder, const char* name, int flags, mode_t mode) {
  static const auto real = next<int(int, const char*, int, ...)>("openat");
  if (fails(call, class_of(flags), path_of(folder, name))) return -1;
  return real(folder, name, flags, mode);
}

// `write_some` writes so many bytes.
template <class WriteSome>
ssize_t do_write(const char* call, int file, size_t bytes, WriteSome write_some) {
  const Fate fate = count_call(call, Class::kGrows, path_of(file));
  if (fate == Fate::kFail) return -1;
  if (fate == Fate::kPass) return write_some(bytes);
  write_some(bytes / 2);
  die();
}

int do_renameat2(const char* call, int folder, const char* name, int other_folder,
                 const char* other, unsigned flags) {
  static const auto real =
      next<int(int, const char*, int, const char*, unsigned)>("renameat2");
  const std::string path = path_of(folder, name, other_folder, other);
  if (fails(call, Class::kGrows, path)) return -1;
  if (flags != 0 && !has_exchange() && is_in_folder(path)) {
    errno = EINVAL;
    return -1;
  }
  return real(folder, name, other_folder, other, flags);
}

int do_linkat(const char* call, int folder, const char* name, int other_folder,
              const char* other, int flags) {
  static const auto real = next<int(int, const char*, int, const char*, int)>("linkat");
  if (fails(call, Class::kGrows, path_of(folder, name, other_folder, other))) return -1;
  return real(folder, name, other_folder, other, flags);
}

int do_unlinkat(const char* call, int folder, const char* name, int flags) {
  static const auto real = next<int(int, const char*, int)>("unlinkat");
  if (fails(call, Class::kChanges, path_of(folder, name))) return -1;
  return real(folder, name, flags);
}

int do_mkdirat(const char* call, int folder, const char* name, mode_t mode) {
  static const auto real = next<int(int, const char*, mode_t)>("mkdirat");
  if (fails(call, Class::kGrows, path_of(folder, name))) return -1;
  return real(folder, name, mode);
}

}  // namespace

extern "C" {

#pragma GCC visibility push(default)

// ---- making and opening

int open(const char* name, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return do_openat("open", AT_FDCWD, name, flags, mode);
}

int openat(int folder, const char* name, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return do_openat("openat", folder, name, flags, mode);
}

int creat(const char* name, mode_t mode) {
  return do_openat("creat", AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int mkdir(const char* name, mode_t mode) noexcept {
  return do_mkdirat("mkdir", AT_FDCWD, name, mode);
}

int mkdirat(int folder, const char* name, mode_t mode) noexcept {
  return do_mkdirat("mkdirat", folder, name, mode);
}

// What was closed with an error is closed.
int close(int file) {
  static const auto real = next<int(int)>("close");
  const bool has_failed = fails("close", Class::kLooks, path_of(file));
  const int error = errno;
  const int result = real(file);
  if (has_failed) errno = error;
  return has_failed ? -1 : result;
}

// ---- bytes

ssize_t read(int file, void* out, size_t bytes) {
  static const auto real = next<ssize_t(int, void*, size_t)>("read");
  return fails("read", Class::kLooks, path_of(file)) ? -1 : real(file, out, bytes);
}

ssize_t pread(int file, void* out, size_t bytes, off_t offset) {
  static const auto real = next<ssize_t(int, void*, size_t, off_t)>("pread");
  if (fails("pread", Class::kLooks, path_of(file))) return -1;
  return real(file, out, bytes, offset);
}

ssize_t write(int file, const void* data, size_t bytes) {
  static const auto real = next<ssize_t(int, const void*, size_t)>("write");
  return do_write("write", file, bytes, [&](size_t n) { return real(file, data, n); });
}

ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) {
  static const auto real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return do_write("pwrite", file, bytes,
                  [&](size_t n) { return real(file, data, n, offset); });
}

ssize_t writev(int file, const iovec* parts, int count) {
  static const auto real = next<ssize_t(int, const iovec*, int)>("writev");
  if (fails("writev", Class::kGrows, path_of(file))) return -1;
  return real(file, parts, count);
}

int ftruncate(int file, off_t bytes) noexcept {
  static const auto real = next<int(int, off_t)>("ftruncate");
  return fails("ftruncate", Class::kChanges, path_of(file)) ? -1 : real(file, bytes);
}

int fchmod(int file, mode_t mode) noexcept {
  static const auto real = next<int(int, mode_t)>("fchmod");
  return fails("fchmod", Class::kChanges, path_of(file)) ? -1 : real(file, mode);
}

int fallocate(int file, int mode, off_t offset, off_t bytes) {
  static const auto real = next<int(int, int, off_t, off_t)>("fallocate");
  if (fails("fallocate", Class::kGrows, path_of(file))) return -1;
  return real(file, mode, offset, bytes);
}

int posix_fallocate(int file, off_t offset, off_t bytes) {  // returns the error
  static const auto real = next<int(int, off_t, off_t)>("posix_fallocate");
  if (fails("posix_fallocate", Class::kGrows, path_of(file))) return errno;
  return real(file, offset, bytes);
}

int fsync(int file) {
  static const auto real = next<int(int)>("fsync");
  return fails("fsync", Class::kSyncs, path_of(file)) ? -1 : real(file);
}

int fdatasync(int file) {
  static const auto real = next<int(int)>("fdatasync");
  return fails("fdatasync", Class::kSyncs, path_of(file)) ? -1 : real(file);
}

// ---- names

int rename(const char* name, const char* other) noexcept {
  return do_renameat2("rename", AT_FDCWD, name, AT_FDCWD, other, 0);
}

int renameat(int folder, const char* name, int other_folder, const char* other) noexcept {
  return do_renameat2("renameat", folder, name, other_folder, other, 0);
}

int renameat2(int folder, const char* name, int other_folder, const char* other,
              unsigned flags) noexcept {
  return do_renameat2("renameat2", folder, name, other_folder, other, flags);
}

int link(const char* name, const char* other) noexcept {
  return do_linkat("link", AT_FDCWD, name, AT_FDCWD, other, 0);
}

int linkat(int folder, const char* name, int other_folder, const char* other,
           int flags) noexcept {
  return do_linkat("linkat", folder, name, other_folder, other, flags);
}

int unlink(const char* name) noexcept { return do_unlinkat("unlink", AT_FDCWD, name, 0); }

int unlinkat(int folder, const char* name, int flags) noexcept {
  return do_unlinkat("unlinkat", folder, name, flags);
}

int rmdir(const char* name) noexcept {
  return do_unlinkat("rmdir", AT_FDCWD, name, AT_REMOVEDIR);
}

// The same calls under the names of large files.
int open64(const char* name, int flags, ...) __attribute__((alias("open")));
int openat64(int folder, const char* name, int flags, ...)
    __attribute__((alias("openat")));
int creat64(const char* name, mode_t mode) __attribute__((alias("creat")));
ssize_t pread64(int, void*, size_t, off64_t) __attribute__((alias("pread")));
ssize_t pwrite64(int, const void*, size_t, off64_t) __attribute__((alias("pwrite")));
int ftruncate64(int, off64_t) noexcept __attribute__((alias("ftruncate")));
int fallocate64(int, int, off64_t, off64_t) __attribute__((alias("fallocate")));

#pragma GCC visibility pop
}
