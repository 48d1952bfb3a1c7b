#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/no_copy.h"

namespace zero {

// What each thread of this process did when, to be drawn.
//
// There is one for the process, as there is one Activity. While nobody records, a span
// costs one relaxed atomic load. Thread-safe.
class Trace {
 public:
  struct Event {
    std::string name;                  // what is done, and to whom: "forward blocks.3"
    int64_t begin_ns = 0, end_ns = 0;  // of CLOCK_MONOTONIC: all ranks of a host compare
  };
  // A thread that did something; its events lie beside or inside one another.
  struct Lane {
    std::string thread;         // "training", or a stream's name
    std::vector<Event> events;  // in the order in which they ended
  };

  // From now on; what was recorded before is forgotten. The calling thread is the one
  // that trains.
  static void start();
  static bool is_on() noexcept { return is_on_.load(std::memory_order_relaxed); }
  // Ends the recording; what has not ended by now is left out.
  static std::vector<Lane> finish();

  // An event of a lane that no thread fills, such as a GPU's stream. One that began
  // before the recording is left out.
  static void add(const std::string& lane, Event event);

  // CLOCK_MONOTONIC.
  static int64_t now_ns();

  // Told of each span of each thread from now on, recorded or not: for profilers, whose
  // ranges nest as spans do. Null: nobody. It outlives the process's spans.
  struct Listener {
    void (*begin)(const char* name);
    void (*end)();
  };
  static void set_listener(const Listener* listener);

  // A stretch of the calling thread's time, until the end of the scope.
  class Span : NoCopy {
   public:
    explicit Span(std::string_view what, std::string_view whom = {}) {
      if (is_on() || listener_.load(std::memory_order_relaxed)) begin(what, whom);
    }
    ~Span() {
      if (event_.begin_ns != 0) end();
    }

   private:
    void begin(std::string_view what, std::string_view whom);
    void end();

    Event event_;
    const Listener* told_ = nullptr;  // who was told that it began
  };

 private:
  static std::atomic<bool> is_on_;
  static std::atomic<const Listener*> listener_;
};

// "forward blocks.3": what is done, and to whom, if to anybody.
std::string span_name(std::string_view what, std::string_view whom);

}  // namespace zero
