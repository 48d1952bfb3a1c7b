#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/no_copy.h"
#include "zero/reports.h"

namespace zero {

class Stream;

// A place in a stream's work that remembers when the stream got there. One thread at a
// time.
class Stamp : NoCopy {
 public:
  virtual ~Stamp() = default;
  // Of CLOCK_MONOTONIC. Nothing: not there yet, or never, as the work before it failed.
  // Waits for nobody.
  virtual std::optional<int64_t> ns() const = 0;
};

// What a span of a stream's work counts as in StreamSeconds.
enum class Work {
  kRunning,  // a forward, a backward or a step, with all waits in it
  kWaiting,  // inside of one of these
  kWeights,
  kGradients,
  kOptimizer,
  kSaves,  // an update waits until a save has read what it writes
  kPart,   // nothing: a part of one of these, for the trace alone
};

// Find out how long streams are at what they do, without waiting for them: their stamps
// are read when they are there. Thread-safe.
//
// A span costs two stamps. While a trace is recorded, those of a GPU's streams enter it:
// there each stream has a lane of its own, as each thread of the host has anyway.
class StreamClock {
 public:
  // From what is queued next to what was queued last when the scope ends. A stamp that
  // fails is left out: who waits for the stream is told.
  class Span : NoCopy {
   public:
    Span(StreamClock& clock, Stream& stream, Work work, std::string_view what,
         std::string_view whom = {});
    ~Span();

   private:
    StreamClock* clock_ = nullptr;  // null: it counts as nothing
    Stream& stream_;
    const Work work_;
    std::string lane_, name_;  // empty: not for a trace
    std::shared_ptr<const Stamp> begin_;
  };

  // Of all spans that are over by now.
  StreamSeconds seconds();

 private:
  struct Entry {
    Work work;
    std::string lane, name;
    std::shared_ptr<const Stamp> begin, end;
  };

  void add(Entry entry);
  void collect();
  bool is_over(const Entry& entry);

  std::mutex mutex_;
  std::vector<Entry> entries_;  // guarded by mutex_: not known to be over
  size_t most_entries_ = 0;     // guarded by mutex_: more are looked through first
  StreamSeconds seconds_;       // guarded by mutex_
};

}  // namespace zero
