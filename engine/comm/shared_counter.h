#pragma once
#include <atomic>
#include <cstdint>

namespace zero {

// A counter in memory that ranks share: one rank advances it, the others sleep until it
// has come far enough.
//
// Works between threads and between processes (a futex). What was written before
// advance() is visible after has_reached(). Wraps around: targets must lie within 2^31 of
// the value. All zero bits are the start value.
class SharedCounter {
 public:
  void advance();
  bool has_reached(uint32_t target) const;
  // Sleep until the counter may have moved, at most timeout_ms; false if the time ran
  // out.
  bool sleep(uint32_t target, int timeout_ms);

 private:
  std::atomic<uint32_t> value_{0};
  // A rank that advances makes no system call while nobody sleeps.
  std::atomic<uint32_t> num_sleepers_{0};
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace zero
