#pragma once

#include <atomic>

namespace zero::checkpoint {

// Whom to tell of each MiB of values that is read, hashed or written: a watchdog may ask
// whether this process still moves. (The lock's heartbeat is no work.) One for the
// process; null: nobody.
inline std::atomic<void (*)()> work_listener{nullptr};

inline void set_work_listener(void (*listener)()) { work_listener = listener; }

// A piece was done.
inline void note_work() {
  if (const auto tell = work_listener.load(std::memory_order_relaxed)) tell();
}

}  // namespace zero::checkpoint
