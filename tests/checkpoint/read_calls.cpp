#include "read_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <mutex>

namespace zero::checkpoint::testing::read_calls {
namespace {

thread_local int num_interrupted = 0;
thread_local bool is_old = false;

struct Watch {
  std::mutex mutex;
  bool is_on = false, refuses_direct = false;
  std::vector<ReadCall> calls;
};

Watch& watch() {
  static Watch watch;
  return watch;
}

// False: it fails with EINVAL.
bool note(int file, size_t bytes, off_t offset) {
  const std::lock_guard lock(watch().mutex);
  if (!watch().is_on) return true;
  struct stat status {};
  ::fstat(file, &status);
  const bool is_direct = (::fcntl(file, F_GETFL) & O_DIRECT) != 0;
  watch().calls.push_back(
      {status.st_ino, offset, offset + static_cast<int64_t>(bytes), is_direct});
  return !is_direct || !watch().refuses_direct;
}

bool has_cache() {
  const std::lock_guard lock(watch().mutex);
  return !watch().is_on;
}

}  // namespace
}  // namespace zero::checkpoint::testing::read_calls

namespace read_calls = zero::checkpoint::testing::read_calls;

// These stand before the C library's. No signal interrupts a read of a regular file, but
// on some network file systems.
extern "C" ssize_t pread(int file, void* out, size_t bytes, off_t offset) {
  if (read_calls::num_interrupted > 0 && read_calls::num_interrupted-- % 2 == 0) {
    errno = EINTR;
    return -1;
  }
  if (read_calls::num_interrupted > 0) bytes = std::min<size_t>(bytes, 5);
  if (!read_calls::note(file, bytes, offset)) {
    errno = EINVAL;
    return -1;
  }
  return ::syscall(SYS_pread64, file, out, bytes, offset);
}

// Without a cache, and where it shall not be told, cachestat(2) is not there.
extern "C" long syscall(long number, ...) noexcept {
  using Call = long (*)(long, ...);
  static const auto call = reinterpret_cast<Call>(::dlsym(RTLD_NEXT, "syscall"));
  constexpr long kCachestat = 451;
  if (number == kCachestat && (!read_calls::has_cache() || read_calls::is_old)) {
    errno = ENOSYS;
    return -1;
  }
  long words[6];
  va_list list;
  va_start(list, number);
  for (long& word : words) word = va_arg(list, long);
  va_end(list);
  return call(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

extern "C" int mincore(void* mapped, size_t bytes, unsigned char* pages) noexcept {
  if (read_calls::has_cache())
    return static_cast<int>(::syscall(SYS_mincore, mapped, bytes, pages));
  std::fill_n(pages, (bytes + 4095) / 4096, 0);
  return 0;
}

namespace zero::checkpoint::testing {

WatchedReads::WatchedReads() {
  const std::lock_guard lock(read_calls::watch().mutex);
  read_calls::watch().is_on = true;
}

WatchedReads::~WatchedReads() {
  const std::lock_guard lock(read_calls::watch().mutex);
  read_calls::watch().is_on = read_calls::watch().refuses_direct = false;
  read_calls::watch().calls.clear();
}

void WatchedReads::refuse_direct() {
  const std::lock_guard lock(read_calls::watch().mutex);
  read_calls::watch().refuses_direct = true;
}

std::vector<ReadCall> WatchedReads::calls() const {
  const std::lock_guard lock(read_calls::watch().mutex);
  return read_calls::watch().calls;
}

void interrupt_reads(int num_reads) { read_calls::num_interrupted = num_reads; }
void pretend_an_old_system(bool is_old) { read_calls::is_old = is_old; }
int num_reads_to_interrupt() { return read_calls::num_interrupted; }

}  // namespace zero::checkpoint::testing
