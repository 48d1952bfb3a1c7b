#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "engine/watch/activity.h"
#include "launcher/settings/settings.h"

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

// Tell people on stderr, as long as the thread lives; where none is left for it, nobody.
std::jthread tell_progress();

// When a run saves, and when it must stop.

// Says when the next checkpoint is due, by steps or by the clock of rank 0.
//
// By the clock, saves are stretched so that they cost at most kLargestShare of the time:
// what training loses, which is less than they take where steps go on beside them.
class SavePace {
 public:
  static constexpr double kLargestShare = 0.05;

  explicit SavePace(const SaveInterval& every) : every_(every) {}

  // `now_seconds` is of any clock that does not jump; a run that begins counts as a save
  // that took no time.
  void note_save(double now_seconds, double took_seconds) {
    last_end_ = now_seconds;
    last_took_ = took_seconds;
  }
  bool is_due(int64_t step, double now_seconds) const {
    if (every_.steps > 0) return step > 0 && step % every_.steps == 0;
    if (every_.seconds == 0) return false;
    // took / (pause + took) <= share
    const double stretched = last_took_ * (1 - kLargestShare) / kLargestShare;
    return now_seconds - last_end_ >=
           std::max(static_cast<double>(every_.seconds), stretched);
  }

 private:
  SaveInterval every_;
  double last_end_ = 0, last_took_ = 0;
};

// Says when the next evaluation is due, where no number of steps does: so seldom that
// evaluations take at most kLargestShare of the time of the steps.
class EvalPace {
 public:
  static constexpr double kLargestShare = 0.02;

  // The first one is taken to cost as much as `first_cost` steps, whatever the clock
  // says.
  explicit EvalPace(double first_cost) : first_cost_(first_cost) {}

  void note_step(double seconds) {
    ++num_steps_;
    seconds_ += seconds;
  }
  void note_evaluation(double seconds) {
    cost_ = seconds;
    seconds_ = 0;
  }
  // Of a save that an evaluation has brought about.
  void note_save(double seconds) { cost_ += seconds; }
  bool is_due() const {
    constexpr double kWait = (1 - kLargestShare) / kLargestShare;
    return cost_ < 0 ? static_cast<double>(num_steps_) >= kWait * first_cost_
                     : seconds_ >= kWait * cost_;
  }

 private:
  const double first_cost_;
  int64_t num_steps_ = 0;
  double seconds_ = 0, cost_ = -1;  // since the last evaluation, and of it; -1: none yet
};

// Says when a run must save to be done before its time is over.
//
// What is kept back is the longest step so far and the time of the last save; before the
// first save a step's time stands for it. So is what is due before: an evaluation, and a
// save that goes on.
class TimeLimit {
 public:
  explicit TimeLimit(int64_t limit_seconds) : limit_(limit_seconds) {}  // 0: no limit

  void note_step(double seconds) { longest_step_ = std::max(longest_step_, seconds); }
  void note_save(double seconds) { last_save_ = seconds; }
  void note_evaluation(double seconds) { last_evaluation_ = seconds; }

  double save() const { return last_save_ < 0 ? longest_step_ : last_save_; }
  // An evaluation of as many samples as `num_steps` steps have takes no longer than
  // these.
  double evaluation(double num_steps) const {
    return last_evaluation_ < 0 ? num_steps * longest_step_ : last_evaluation_;
  }
  // `age_seconds`: how long the process has run; `due_seconds`: of what comes before the
  // next save besides a step.
  bool is_near(double age_seconds, double due_seconds = 0) const {
    const double margin = longest_step_ + save();
    return limit_ > 0 &&
           age_seconds + due_seconds + margin >= static_cast<double>(limit_);
  }

 private:
  int64_t limit_;
  double longest_step_ = 0, last_save_ = -1, last_evaluation_ = -1;
};

// Since 1970.
double wall_seconds();

// Seconds since this process was started, by the system's own record.
double process_age();

}  // namespace zero::launcher
