#pragma once
#include <algorithm>
#include <cstdint>

namespace zero::launcher {

// Says when a run must save to be done before its time is over.
//
// What is kept back is the longest step so far and the time of the last save; before the
// first save a step's time stands for it. So is an evaluation that is due.
class TimeLimit {
 public:
  explicit TimeLimit(int64_t limit_seconds) : limit_(limit_seconds) {}  // 0: no limit

  void note_step(double seconds) { longest_step_ = std::max(longest_step_, seconds); }
  void note_save(double seconds) { last_save_ = seconds; }
  void note_evaluation(double seconds) { last_evaluation_ = seconds; }

  double margin() const {
    return longest_step_ + (last_save_ < 0 ? longest_step_ : last_save_);
  }
  // An evaluation of as many samples as `num_steps` steps have takes no longer than
  // these.
  double evaluation(double num_steps) const {
    return last_evaluation_ < 0 ? num_steps * longest_step_ : last_evaluation_;
  }
  // `age_seconds`: how long the process has run; `due_seconds`: of what comes before the
  // next save besides a step.
  bool is_near(double age_seconds, double due_seconds = 0) const {
    return limit_ > 0 &&
           age_seconds + due_seconds + margin() >= static_cast<double>(limit_);
  }

 private:
  int64_t limit_;
  double longest_step_ = 0, last_save_ = -1, last_evaluation_ = -1;
};

// Seconds since this process was started, by the system's own record.
double process_age();

}  // namespace zero::launcher
