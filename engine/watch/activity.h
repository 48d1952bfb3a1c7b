#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/watch/trace.h"

namespace zero {

// Where this process is in its work, for a watchdog to tell.
//
// Whoever works says so, from any thread; it costs next to nothing. There is one for the
// process: where ranks are threads of it, it tells of all of them together.
class Activity {
 public:
  static Activity& here();

  // Something was done: a read, a unit, a pass of an evaluation; so many bytes of what a
  // stretch expects.
  void sign(int64_t bytes = 0) noexcept {
    signs_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }

  // The same for whoever takes a function to call.
  static void sign_here(int64_t bytes) { here().sign(bytes); }

  // A stretch of work, until the end of the scope: "forward", a unit's FQN, "save step
  // 40"; in one that `waits` this rank needs the others: "all_gather 'blocks.4'". Begins
  // and ends with a sign. Also a span of the Trace, where `verb` says what is done with a
  // unit.
  class Stretch : NoCopy {
   public:
    explicit Stretch(std::string what, std::string_view verb = {}, bool waits = false);
    ~Stretch();

    // So many bytes will be signed from now on: people may be told how far it is.
    void expect(int64_t bytes);

   private:
    const Trace::Span span_;
    uint64_t id_;
  };

  // Of the outermost stretch that expects something.
  struct Progress {
    uint64_t stretch = 0;  // a number of its own
    std::string what;
    int64_t done_bytes = 0, total_bytes = 0;
  };
  std::optional<Progress> progress() const;

  struct State {
    uint64_t signs = 0;
    uint64_t call = 0;  // of Waiting, a number of its own; 0: this rank waits for nobody
    std::string where;  // "all_gather 'blocks.4' (forward, blocks.3)", or "forward"
  };
  State state() const;

 private:
  struct Entry {
    uint64_t id;
    bool is_waiting;
    std::string what;
    int64_t total_bytes = 0;  // that it expects
    int64_t first_byte = 0;   // of bytes_
  };

  std::atomic<uint64_t> signs_{0};
  std::atomic<int64_t> bytes_{0};
  mutable std::mutex mutex_;
  uint64_t last_id_ = 0;        // guarded by mutex_
  std::vector<Entry> entries_;  // guarded by mutex_; the innermost last
};

}  // namespace zero
