#include "engine/comm/shared_counter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace zero {

namespace {

// Not the "private" kind: the word may be mapped by several processes.
long futex(std::atomic<uint32_t>* word, int operation, uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), operation, value, timeout,
                 nullptr, 0);
}

}  // namespace

// Sequential consistency in advance() and sleep(): of "value moved" and "somebody sleeps"
// at least one side sees the other's, so no wake-up is lost.
void SharedCounter::advance() {
  value_.fetch_add(1);
  if (num_sleepers_.load() > 0) futex(&value_, FUTEX_WAKE, INT_MAX, nullptr);
}

bool SharedCounter::has_reached(uint32_t target) const {
  return static_cast<int32_t>(value_.load(std::memory_order_acquire) - target) >= 0;
}

bool SharedCounter::sleep(uint32_t target, int timeout_ms) {
  const timespec timeout{timeout_ms / 1000, (timeout_ms % 1000) * 1'000'000L};
  num_sleepers_.fetch_add(1);
  const uint32_t value = value_.load();
  bool is_out_of_time = false;
  if (static_cast<int32_t>(value - target) < 0) {
    is_out_of_time =
        futex(&value_, FUTEX_WAIT, value, &timeout) != 0 && errno == ETIMEDOUT;
  }
  num_sleepers_.fetch_sub(1);
  return !is_out_of_time;
}

}  // namespace zero
