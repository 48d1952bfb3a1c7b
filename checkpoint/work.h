#pragma once

#include <atomic>
#include <cstdint>

namespace zero::checkpoint {

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
