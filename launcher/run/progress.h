#pragma once
#include <optional>
#include <string>
#include <thread>

#include "engine/watch/activity.h"

// How far long work is: reading, first values, loading, saving.
namespace zero::launcher {

// "first values: 43 %, 1.2 GiB of 2.8 GiB, 12s left"
std::string progress_line(const Activity::Progress& progress, double seconds);

// Decides what to tell, and when. Times are in seconds.
class ProgressPace {
 public:
  // On a terminal work of a second is told of, in a line that changes. Elsewhere it takes
  // half a minute, and then there is a new line every half minute.
  explicit ProgressPace(bool on_terminal) : on_terminal_(on_terminal) {}

  // The line to tell now; nothing: none.
  std::optional<std::string> next(const std::optional<Activity::Progress>& progress,
                                  double now);

 private:
  const bool on_terminal_;
  uint64_t stretch_ = 0;
  double begin_ = 0, last_ = 0;
};

// Tells people on stderr, as long as this lives.
class ProgressTeller {
 public:
  ProgressTeller();

 private:
  std::jthread thread_;
};

}  // namespace zero::launcher
